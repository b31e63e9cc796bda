// The extension module torch_cuda._CUDAC: every CUDA name that a CUDA build of torch puts into torch._C.
//
// In upstream's build torch/csrc/Module.cpp makes these calls while it creates torch._C. Here they fill a module of their
// own, and torch._decoupled.preload copies its names to where upstream's Python code looks for them.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/cuda/Event.h>
#include <torch/csrc/cuda/Stream.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/object_ptr.h>

#include <utility>

#include "registrations/bindings.h"

// Defined in Graph.cpp, MemPool.cpp and Module.cpp of torch/csrc/cuda; no header declares them.
void THCPGraph_init(PyObject* module);
void THCPMemPool_init(PyObject* module);
PyMethodDef* THCPModule_methods();
namespace torch::cuda {
void initModule(PyObject* module);
} // namespace torch::cuda

#ifdef HAS_STATIC_LAUNCHER // of torch/csrc/inductor, from 2.8 on
bool StaticCudaLauncher_init(PyObject* module);
#endif
#ifdef HAS_FAST_LAUNCHER // from 2.13 on
bool FastCudaLauncher_init(PyObject* module);
#endif

#ifndef TORCH_CUDA_PACKAGE // which another vendor's build on this key has for itself
#define TORCH_CUDA_PACKAGE "torch_cuda"
#endif

#ifdef TORCH_CUDA_TORCH_VERSION
// What torch.version is to say: pairs of a name and a value (torch/_decoupled/preload.py).
static void addTorchVersion(PyObject* module) {
  const std::pair<const char*, const char*> said[] = {TORCH_CUDA_TORCH_VERSION};
  THPObjectPtr names(PyDict_New());
  if (!names) {
    throw python_error();
  }
  for (const auto& [name, value] : said) {
    THPObjectPtr text(PyUnicode_FromString(value));
    if (!text || PyDict_SetItemString(names.get(), name, text.get()) < 0) {
      throw python_error();
    }
  }
  if (PyObject_SetAttrString(module, "_torch_version", names.get()) < 0) {
    throw python_error();
  }
}
#endif

PyMODINIT_FUNC PyInit__CUDAC() {
  HANDLE_TH_ERRORS
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT,
      TORCH_CUDA_PACKAGE "._CUDAC",
      "CUDA bindings of torch (CUDA " TORCH_CUDA_VERSION ").",
      -1,
      THCPModule_methods()};
  THPObjectPtr module(PyModule_Create(&definition));
  if (!module) {
    throw python_error();
  }
  // The order of torch/csrc/Module.cpp.
  torch::cuda::initModule(module.get());
  THCPStream_init(module.get());
  THCPEvent_init(module.get());
  THCPGraph_init(module.get());
  THCPMemPool_init(module.get());
#ifdef HAS_STATIC_LAUNCHER
  if (!StaticCudaLauncher_init(module.get())) {
    throw python_error();
  }
#endif
#ifdef HAS_FAST_LAUNCHER
  if (!FastCudaLauncher_init(module.get())) {
    throw python_error();
  }
#endif
  torch::cuda::addCoreBindings(module.get());
#ifdef TORCH_CUDA_TORCH_VERSION
  addTorchVersion(module.get());
#endif
  return module.release();
  END_HANDLE_TH_ERRORS
}
