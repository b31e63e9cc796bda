// Every difference between PyTorch releases that the C++ layer has to know, and the release each line is for.
//
// Nothing else in the layer tests a version. Most differences need no line at all: a virtual function that only later
// releases know is declared without `override` and is simply unused on earlier ones (TD_SINCE names the release).
#pragma once

#include <torch/version.h>

#define TD_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !TD_TORCH_AT_LEAST(2, 6)
#error "the layer supports PyTorch 2.6 and later"
#endif

// Marks a virtual function of an interface that has it only since the named release.
#define TD_SINCE(release)

// 2.7: torch.Generator(device=...) asks the accelerator hooks (getNewGenerator); 2.6 asks a registry of its own
// (ATen/core/GeneratorForPrivateuseone.h).
#define TD_GENERATOR_REGISTRY (!TD_TORCH_AT_LEAST(2, 7))

// 2.8: pinned memory comes from a registered at::HostAllocator (ATen/core/CachingHostAllocator.h), which
// torch.accelerator and Tensor.pin_memory use; 2.6 and 2.7 ask the hooks for a plain allocator.
#define TD_HOST_ALLOCATOR TD_TORCH_AT_LEAST(2, 8)

// 2.9: torch.accelerator.memory_stats() and its like work on allocators derived from c10::DeviceAllocator
// (c10/core/CachingDeviceAllocator.h).
#define TD_DEVICE_ALLOCATOR TD_TORCH_AT_LEAST(2, 9)

// 2.13: torch.accelerator.Graph asks a registry for the device's graphs. The header tells.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#define TD_GRAPH_REGISTRY 1
#else
#define TD_GRAPH_REGISTRY 0
#endif

// 2.6 to some release before 2.13: the outputs of structured operators carry dimension names (ATen/TensorMeta.h). The
// header that went away with them tells, so that no release has to be guessed.
#if __has_include(<ATen/core/Dimname.h>)
#include <ATen/core/Dimname.h>
#define TD_NAMES_PARAMETER , at::DimnameList names
#define TD_NAMES_ARGUMENT , names
#else
#define TD_NAMES_PARAMETER
#define TD_NAMES_ARGUMENT
#endif
