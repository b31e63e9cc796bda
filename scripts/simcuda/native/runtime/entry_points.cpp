// What does not fit elsewhere: the profiler's switch, the driver's functions by name.
#include <dlfcn.h>

#include <string>

#include "world.h"

SIM_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
SIM_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
#if CUDART_VERSION < 12000
SIM_API cudaError_t cudaProfilerInitialize(const char*, const char*, int) { return cudaSuccess; }
#endif

// The newest version of a driver function, as cuda.h names it: cuFoo_v3, cuFoo_v2 or cuFoo.
static void* driver_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return nullptr;
  for (const char* version : {"_v3", "_v2", ""})
    if (void* f = dlsym(library, (std::string(name) + version).c_str())) return f;
  return nullptr;
}
#undef cudaGetDriverEntryPoint
SIM_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long
#if CUDART_VERSION >= 12000
                                            , cudaDriverEntryPointQueryResult* result
#endif
) {
  *out = driver_function(name);
#if CUDART_VERSION >= 12000
  if (result) *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
#else
  return *out ? cudaSuccess : cudaErrorSymbolNotFound;
#endif
}
#if CUDART_VERSION >= 12050
SIM_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long flags,
                                                     cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPoint(name, out, flags, result);
}
#endif
