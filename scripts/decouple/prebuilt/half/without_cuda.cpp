// Takes the CUDA bindings of an official libtorch_python out of torch._C, without changing a byte of it.
//
// That library was compiled with USE_CUDA: while it creates torch._C it calls these six functions of its own
// torch/csrc/cuda. They are exported, so the first library of the process that defines them is asked instead. Loaded before
// it, this one answers the first call, torch._C's, with nothing; every later call, torch_cuda._CUDAC's, goes to our
// libtorch_python_cuda, which is loaded second (package.py), so that all its other names too come before the core's.
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>

struct _object; // PyObject
struct PyMethodDef {
  const char* name;
  void* method;
  int flags;
  const char* text;
};

namespace {

void* ours(const char* name) {
  static void* library = dlopen("libtorch_python_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  void* found = library ? dlsym(library, name) : nullptr; // a handle is searched itself first, the process is not
  if (!found) {
    std::fprintf(stderr, "torch_core_half: libtorch_python_cuda is not loaded, or has no %s\n", name);
    std::abort();
  }
  return found;
}

} // namespace

#define FORWARD(function, mangled)                                           \
  void function(_object* module) {                                           \
    static bool seen = false;                                                \
    if (seen) {                                                              \
      reinterpret_cast<void (*)(_object*)>(ours(mangled))(module);           \
    }                                                                        \
    seen = true;                                                             \
  }

FORWARD(THCPStream_init, "_Z15THCPStream_initP7_object")
FORWARD(THCPEvent_init, "_Z14THCPEvent_initP7_object")
FORWARD(THCPGraph_init, "_Z14THCPGraph_initP7_object")
FORWARD(THCPMemPool_init, "_Z16THCPMemPool_initP7_object")

namespace torch::cuda {
FORWARD(initModule, "_ZN5torch4cuda10initModuleEP7_object")
} // namespace torch::cuda

PyMethodDef* THCPModule_methods() {
  static bool seen = false;
  static PyMethodDef none[] = {{nullptr, nullptr, 0, nullptr}};
  if (!seen) {
    seen = true;
    return none;
  }
  return reinterpret_cast<PyMethodDef* (*)()>(ours("_Z18THCPModule_methodsv"))();
}
