// The c10d backends of the layer, and of a backend's own.
#pragma once

#include <third_device/driver.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace third_device {

// Collectives on device tensors through `inner`, a backend of the host (Gloo).
TD_API c10::intrusive_ptr<c10d::Backend> host_staged(const c10::intrusive_ptr<c10d::Backend>& inner);

// What a process group is made from.
struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int size;
  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Backend> host;  // Gloo, for what is left to HostStaged
};

struct Collectives {
  std::string name;  // in torch.distributed.init_process_group(backend=...)
  c10::intrusive_ptr<c10d::Backend> (*make)(const GroupOptions& options);
};

// A backend defines this function in its sources if it has collectives of its own; tensors of the device use the first
// of them where no name is given. Without it the list is empty, and they go through the host.
TD_API std::vector<Collectives> own_collectives();

}  // namespace third_device
