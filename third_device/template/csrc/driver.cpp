// The driver of torch_newdevice. It begins as the simulated device; replace its functions by yours, group by group (devices,
// then memory and copies, then streams and events), and let the contract tests tell what still holds:
//
//   pytest -p third_device_contract.plugin --pyargs third_device_contract --device newdevice
#include <third_device/driver.h>

#include <third_device/sim_driver.h>

extern "C" const td_driver* third_device_driver() {
  static const td_driver table = [] {
    td_driver made = *third_device::sim::sim_driver();
    // made.memory_alloc = my_memory_alloc;
    return made;
  }();
  return &table;
}
