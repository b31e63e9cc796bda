// A simulated device: a complete driver that needs no hardware.
//
// - Device memory lies in pages the host may not touch (PROT_NONE): a stray dereference of a device address ends the
//   process with SIGSEGV, as it should. Work that runs "on the device" reaches the same bytes through a second address,
//   `sim_view(address)`. Memory that was freed is unreachable through both.
// - Every stream is a worker thread with a queue, so order within a stream and the lack of it between streams are real.
// - Memory size and faults can be set: see sim_control_keys in sim_driver.cpp.
//
// Read once, at the first call: TD_SIM_DEVICES (how many, default 2), TD_SIM_MEMORY (bytes of each, default 1 GiB),
// TD_SIM_DRIVER=absent (behave like a machine without the vendor's library).
#pragma once

#include <third_device/driver.h>

namespace third_device::sim {

// The table; copy it and replace members to move from simulation to a real device function by function.
const td_driver* sim_driver();

// Where work on the device finds the bytes of a device address. Null stays null; other addresses are returned as they
// are, so that kernels may mix device and pinned host operands.
TD_API void* sim_view(const void* address);

template <typename T>
T* sim_view_as(const T* address) {
  return static_cast<T*>(sim_view(address));
}

}  // namespace third_device::sim
