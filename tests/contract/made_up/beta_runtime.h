// A runtime of a vendor that there is not, shaped as CUDA's is, with its own prefix and one name spelled otherwise: memory
// is the host's, and what is put on a stream is done at once.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

enum betaError_t {
  betaSuccess,
  betaErrorNotReady,
  betaErrorMemoryAllocation,
  betaErrorInvalidValue,
  betaErrorInvalidDevice,
  betaErrorNoDevice,
  betaErrorGone
};
// this vendor has one code where others have several
constexpr auto betaErrorInsufficientDriver = betaErrorNoDevice, betaErrorStubLibrary = betaErrorNoDevice;
constexpr auto betaErrorDevicesUnavailable = betaErrorGone, betaErrorECCUncorrectable = betaErrorGone;

enum betaMemoryType { betaMemoryTypeUnregistered, betaMemoryTypeHost, betaMemoryTypeDevice };
enum betaMemcpyKind { betaMemcpyDefault };
constexpr unsigned betaHostAllocPortable = 1, betaStreamNonBlocking = 1, betaEventDisableTiming = 2;

struct betaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};
struct betaPointerAttribute_t {
  betaMemoryType type;
  int device;
};
using betaGraph_t = std::vector<std::function<void()>>*;
using betaGraphExec_t = betaGraph_t;
using betaStream_t = struct betaStreamOf { int device; betaGraph_t captured; }*;
enum betaStreamCaptureStatus { betaStreamCaptureStatusNone, betaStreamCaptureStatusActive };
enum betaStreamCaptureMode { betaStreamCaptureModeRelaxed };
using betaEvent_t = struct betaEventOf { std::chrono::steady_clock::time_point at; }*;

namespace beta {
struct Block {
  size_t bytes;
  betaPointerAttribute_t is;
};
inline std::map<const char*, Block> blocks;
inline std::mutex lock;
inline thread_local int current = 0;
inline thread_local betaError_t last = betaSuccess;
inline int devices = 2;
inline bool late = false;  // whether queries find work that is not done
// Remembers the error for betaGetLastError of this thread and returns it.
inline betaError_t tell(betaError_t code) {
  if (code != betaSuccess) last = code;
  return code;
}
inline betaError_t add(void** address, size_t bytes, betaPointerAttribute_t is) {
  *address = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*address == nullptr) return tell(betaErrorMemoryAllocation);
  std::lock_guard<std::mutex> hold(lock);
  blocks[static_cast<const char*>(*address)] = {bytes, is};
  return betaSuccess;
}
// At once, or at each launch of the graph that the stream is captured as.
inline betaError_t put(betaStream_t stream, std::function<void()> work) {
  if (stream->captured == nullptr) return work(), betaSuccess;
  return stream->captured->push_back(std::move(work)), betaSuccess;
}
inline betaError_t remove(void* address) {
  std::lock_guard<std::mutex> hold(lock);
  blocks.erase(static_cast<const char*>(address));
  std::free(address);
  return betaSuccess;
}
}  // namespace beta

inline const char* betaGetErrorString(betaError_t) { return "beta says no"; }
inline betaError_t betaGetLastError() { return std::exchange(beta::last, betaSuccess); }
inline betaError_t betaGetDeviceCount(int* count) {
  return *count = beta::devices, beta::tell(beta::devices > 0 ? betaSuccess : betaErrorNoDevice);
}
inline betaError_t betaGetDevice(int* device) { return *device = beta::current, betaSuccess; }
inline betaError_t betaSetDevice(int device) {
  if (device < 0 || device >= beta::devices) return beta::tell(betaErrorInvalidDevice);
  return beta::current = device, betaSuccess;
}
inline betaError_t betaDeviceSynchronize() { return betaSuccess; }
inline betaError_t betaGetDeviceProperties(betaDeviceProp* found, int) {
  *found = {"made up", size_t{1} << 30, 1, 0, 1};
  return betaSuccess;
}
inline betaError_t betaMemGetInfo(size_t* available, size_t* total) {
  return *available = *total = size_t{1} << 30, betaSuccess;
}
inline betaError_t betaMalloc(void** address, size_t bytes) {
  return beta::add(address, bytes, {betaMemoryTypeDevice, beta::current});
}
inline betaError_t betaFree(void* address) { return beta::remove(address); }
inline betaError_t betaHostAlloc(void** address, size_t bytes, unsigned) {
  return beta::add(address, bytes, {betaMemoryTypeHost, 0});
}
inline betaError_t betaFreeHost(void* address) { return beta::remove(address); }
inline betaError_t betaPointerGetAttributes(betaPointerAttribute_t* found, const void* address) {
  std::lock_guard<std::mutex> hold(beta::lock);
  const auto* at = static_cast<const char*>(address);
  auto next = beta::blocks.upper_bound(at);
  *found = {betaMemoryTypeUnregistered, 0};
  if (next != beta::blocks.begin() && at < (--next)->first + next->second.bytes) *found = next->second.is;
  return betaSuccess;
}
inline betaError_t betaMemsetAsync(void* to, int value, size_t bytes, betaStream_t stream) {
  return beta::put(stream, [=] { std::memset(to, value, bytes); });
}
inline betaError_t betaMemcpyAsync(void* to, const void* from, size_t bytes, betaMemcpyKind, betaStream_t stream) {
  return beta::put(stream, [=] { std::memmove(to, from, bytes); });
}
inline betaError_t betaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, betaStream_t) {
  return std::memmove(to, from, bytes), betaSuccess;
}
inline betaError_t betaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = *highest = 0, betaSuccess;
}
inline betaError_t betaStreamCreateWithPriority(betaStream_t* made, unsigned, int) {
  return *made = new betaStreamOf{beta::current, nullptr}, betaSuccess;
}
inline betaError_t betaStreamDestroy(betaStream_t stream) { return delete stream, betaSuccess; }
inline betaError_t betaStreamQuery(betaStream_t) { return beta::tell(beta::late ? betaErrorNotReady : betaSuccess); }
inline betaError_t betaStreamSynchronize(betaStream_t) { return betaSuccess; }
inline betaError_t betaStreamWaitEvent(betaStream_t, betaEvent_t, unsigned) { return betaSuccess; }
inline betaError_t betaLaunchHostFunc(betaStream_t stream, void (*function)(void*), void* argument) {
  return beta::put(stream, [=] { function(argument); });
}
inline betaError_t betaStreamBeginCapture(betaStream_t stream, betaStreamCaptureMode) {
  return stream->captured = new std::vector<std::function<void()>>, betaSuccess;
}
inline betaError_t betaStreamGetCaptureInfo(betaStream_t stream, betaStreamCaptureStatus* status, unsigned long long* id) {
  *status = stream->captured ? betaStreamCaptureStatusActive : betaStreamCaptureStatusNone;
  return *id = reinterpret_cast<size_t>(stream->captured), betaSuccess;
}
inline betaError_t betaStreamEndCapture(betaStream_t stream, betaGraph_t* graph) {
  *graph = std::exchange(stream->captured, nullptr);
  return beta::tell(*graph ? betaSuccess : betaErrorInvalidValue);
}
inline betaError_t betaGraphInstantiateWithFlags(betaGraphExec_t* made, betaGraph_t graph, unsigned long long) {
  return *made = new std::vector<std::function<void()>>(*graph), betaSuccess;
}
inline betaError_t betaGraphDestroy(betaGraph_t graph) { return delete graph, betaSuccess; }
inline betaError_t betaGraphExecDestroy(betaGraphExec_t graph) { return delete graph, betaSuccess; }
inline betaError_t betaGraphLaunch(betaGraphExec_t graph, betaStream_t) {
  for (const auto& work : *graph) work();
  return betaSuccess;
}
inline betaError_t betaEventCreateWithFlags(betaEvent_t* made, unsigned) {
  return *made = new betaEventOf{}, betaSuccess;
}
inline betaError_t betaEventDestroy(betaEvent_t event) { return delete event, betaSuccess; }
inline betaError_t betaEventRecord(betaEvent_t event, betaStream_t) {
  return event->at = std::chrono::steady_clock::now(), betaSuccess;
}
inline betaError_t betaEventQuery(betaEvent_t) { return beta::tell(beta::late ? betaErrorNotReady : betaSuccess); }
inline betaError_t betaEventSynchronize(betaEvent_t) { return betaSuccess; }
inline betaError_t betaEventElapsedTime(float* measured, betaEvent_t start, betaEvent_t end) {
  *measured = std::chrono::duration<float, std::milli>(end->at - start->at).count();
  return betaSuccess;
}
