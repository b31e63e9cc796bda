// The c10d backend of the layer.
#pragma once

#include <third_device/driver.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace third_device {

// Collectives on device tensors through `inner`, a backend of the host (Gloo).
TD_API c10::intrusive_ptr<c10d::Backend> host_staged(const c10::intrusive_ptr<c10d::Backend>& inner);

}  // namespace third_device
