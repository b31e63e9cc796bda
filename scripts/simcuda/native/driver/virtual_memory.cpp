// Virtual memory management: a range is reserved, physical memory is made, mapped into it and made accessible.
// PyTorch's expandable segments use it.
#include <cuda.h>
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "../interface.h"

#define DRIVER_API extern "C" __attribute__((visibility("default"))) CUresult

namespace {

constexpr size_t kGranularity = size_t(2) << 20;

struct Physical {
  int device;
  size_t offset, size;
  int mappings = 0;
  bool released = false;
};
struct Mapping {
  size_t size;
  CUmemGenericAllocationHandle handle;
};
std::mutex mutex;
std::map<CUmemGenericAllocationHandle, Physical>& physical() {
  static auto* all = new std::map<CUmemGenericAllocationHandle, Physical>;
  return *all;
}
std::map<CUdeviceptr, Mapping>& mappings() {
  static auto* all = new std::map<CUdeviceptr, Mapping>;
  return *all;
}
CUmemGenericAllocationHandle next_handle = 1;

void drop_if_unused(CUmemGenericAllocationHandle handle) {
  auto it = physical().find(handle);
  if (it == physical().end() || !it->second.released || it->second.mappings) return;
  simcuda_physical_release(it->second.device, it->second.offset);
  physical().erase(it);
}
bool aligned(size_t n) { return n && n % kGranularity == 0; }

}  // namespace

DRIVER_API cuMemGetAllocationGranularity(size_t* size, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *size = kGranularity;
  return CUDA_SUCCESS;
}
DRIVER_API cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr, unsigned long long) {
  if (!aligned(size)) return CUDA_ERROR_INVALID_VALUE;
  void* p = mmap(nullptr, size + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t start = (size_t(p) + kGranularity - 1) / kGranularity * kGranularity, end = size_t(p) + size + kGranularity;
  if (start > size_t(p)) munmap(p, start - size_t(p));
  if (end > start + size) munmap((void*)(start + size), end - start - size);
  simcuda_reserve((void*)start, size, simcuda_current_device());
  *out = start;
  return CUDA_SUCCESS;
}
DRIVER_API cuMemAddressFree(CUdeviceptr address, size_t size) {
  simcuda_unreserve((void*)address);
  return munmap((void*)address, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
DRIVER_API cuMemCreate(CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* properties,
                       unsigned long long) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!aligned(size) || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  int device = properties->location.id;
  if (device < 0 || device >= simcuda_device_count()) return CUDA_ERROR_INVALID_DEVICE;
  size_t offset;
  if (!simcuda_physical_allocate(device, size, &offset)) return CUDA_ERROR_OUT_OF_MEMORY;
  physical()[*out = next_handle++] = {device, offset, size};
  return CUDA_SUCCESS;
}
DRIVER_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = physical().find(handle);
  if (it == physical().end() || it->second.released) return CUDA_ERROR_INVALID_VALUE;
  it->second.released = true;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}
DRIVER_API cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = physical().find(handle);
  if (it == physical().end() || !aligned(size) || offset + size > it->second.size) return CUDA_ERROR_INVALID_VALUE;
  // no access until cuMemSetAccess
  if (mmap((void*)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           simcuda_physical_file(it->second.device), off_t(it->second.offset + offset)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  simcuda_reserved_for((void*)address, it->second.device);
  it->second.mappings++;
  mappings()[address] = {size, handle};
  return CUDA_SUCCESS;
}
DRIVER_API cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* list, size_t count) {
  int protection = PROT_NONE;
  for (size_t i = 0; i < count; i++) {
    if (list[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
    if ((list[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      protection |= PROT_READ | PROT_WRITE;
  }
  return mprotect((void*)address, size, protection) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
DRIVER_API cuMemUnmap(CUdeviceptr address, size_t size) {
  std::lock_guard<std::mutex> lock(mutex);
  bool any = false;
  for (auto it = mappings().lower_bound(address); it != mappings().end() && it->first < address + size;) {
    mmap((void*)it->first, it->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    CUmemGenericAllocationHandle handle = it->second.handle;
    it = mappings().erase(it);
    physical()[handle].mappings--;
    drop_if_unused(handle);
    any = true;
  }
  return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
