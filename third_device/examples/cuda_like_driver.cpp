// A driver over a runtime that looks like CUDA's: what `csrc/driver.cpp` of a backend becomes when the vendor's library
// has streams, events and asynchronous copies of that shape. Read your own prefix for `cuda`; `decouple stages reuse` writes a
// header that maps the names. It compiles against the CUDA toolkit and, without a driver on the machine, says so.
#include <cuda_runtime_api.h>
#define TD_RUNTIME(name) cuda##name
#include <third_device/runtime_driver.h>

extern "C" const td_driver* third_device_driver() {
  static const td_driver table = third_device::runtime_driver();
  return &table;
}
