#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace sim {
namespace {

thread_local int current = 0;

const char* const kVisible[] = {"CUDA_VISIBLE_DEVICES", nullptr};
const char* const* visible_names = kVisible;

// As the driver reads CUDA_VISIBLE_DEVICES: numbers or UUIDs; the first bad entry hides itself and all that follow; a device
// named twice hides all.
std::vector<int> read_visible() {
  std::vector<int> visible;
  const char* text = nullptr;
  for (const char* const* name = visible_names; *name && !text; name++) text = getenv(*name);
  if (!text) {
    for (int i = 0; i < options().devices; i++) visible.push_back(i);
    return visible;
  }
  while (*text) {
    char* end;
    long number;
    if (!strncmp(text, "GPU-", 4)) {
      number = strtol(text + 4, &end, 16);  // the UUID of device N begins with N
      while (*end && *end != ',') end++;
    } else {
      number = strtol(text, &end, 10);
    }
    if (end == text || number < 0 || number >= options().devices) break;
    if (std::find(visible.begin(), visible.end(), int(number)) != visible.end()) return {};
    visible.push_back(int(number));
    if (*end != ',') break;
    text = end + 1;
  }
  return visible;
}

const std::vector<int>& visible() {
  static const std::vector<int> list = read_visible();
  return list;
}

}  // namespace

int device_count() { return int(visible().size()); }
int physical_of(int number) { return number < device_count() ? visible()[number] : number; }
Device& device(int number) {
  static auto* all = new Device[kMaxDevices];
  return all[number];
}
int& current_device() { return current; }

cudaError_t activate(int number) {
  Device& d = device(number);
  if (d.active) return cudaSuccess;
  if (!d.memory.open(physical_of(number), options().memory)) return cudaErrorMemoryAllocation;
  d.null_stream.device = number;
  d.null_stream.id = number + 1;
  d.null_stream.is_null = true;
  d.pool.device = number;
  d.active = true;
  return cudaSuccess;
}

}  // namespace sim

using namespace sim;

SIM_API cudaError_t cudaGetDeviceCount(int* count) {
  ENTER;
  *count = device_count();
  ANY_DEVICE;
  return cudaSuccess;
}
// Answers after an error that sticks, too: guards of a device ask in their destructors.
SIM_API cudaError_t cudaGetDevice(int* number) {
  if (process_state() == cudaErrorInitializationError) FAIL(cudaErrorInitializationError);
  std::lock_guard<std::recursive_mutex> lock(world());
  ANY_DEVICE;
  *number = current_device();
  return cudaSuccess;
}
SIM_API cudaError_t cudaSetDevice(int number) {
  ENTER;
  ANY_DEVICE;
  VALID_DEVICE(number);
  CHECK(activate(number));
  current_device() = number;
  return cudaSuccess;
}
SIM_API cudaError_t cudaInitDevice(int number, unsigned, unsigned) {
  ENTER;
  VALID_DEVICE(number);
  CHECK(activate(number));
  return cudaSuccess;
}
SIM_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
  ENTER;
  device(current_device()).flags = flags;
  return cudaSuccess;
}
SIM_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  ENTER;
  *flags = device(current_device()).flags;
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  ENTER;
  if (unsigned(limit) >= 8) FAIL(cudaErrorInvalidValue);
  *value = device(current_device()).limits[limit];
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  ENTER;
  if (unsigned(limit) >= 8) FAIL(cudaErrorInvalidValue);
  device(current_device()).limits[limit] = value;
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
SIM_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  ENTER;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

// ---- peers: every device reaches every other ----
SIM_API cudaError_t cudaDeviceCanAccessPeer(int* can, int a, int b) {
  ENTER;
  VALID_DEVICE(a);
  VALID_DEVICE(b);
  *can = a != b;
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  ENTER;
  VALID_DEVICE(peer);
  if (peer == current_device()) FAIL(cudaErrorInvalidDevice);
  CHECK(activate(current_device()));
  CHECK(activate(peer));
  if (!device(current_device()).peers.insert(peer).second) FAIL(cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  ENTER;
  VALID_DEVICE(peer);
  if (!device(current_device()).peers.erase(peer)) FAIL(cudaErrorPeerAccessNotEnabled);
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int a, int b) {
  ENTER;
  VALID_DEVICE(a);
  VALID_DEVICE(b);
  *value = 1;
  return cudaSuccess;
}

// ---- for the driver's stand-in ----
SIM_API void simcuda_visible_by(const char* const* variables) { visible_names = variables; }
SIM_API int simcuda_device_count(void) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return device_count();
}
SIM_API int simcuda_current_device(void) { return current_device(); }
SIM_API void simcuda_choose_device(int number) { current_device() = number; }
SIM_API int simcuda_context_active(int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return device(number).active;
}
SIM_API int simcuda_context_retain(int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return activate(number);
}
SIM_API unsigned simcuda_device_flags(int number) { return device(number).flags; }
SIM_API int simcuda_physical(int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return physical_of(number);
}
SIM_API size_t simcuda_device_memory(void) { return options().memory; }
