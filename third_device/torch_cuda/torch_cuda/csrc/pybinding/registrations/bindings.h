#pragma once

#include <torch/csrc/python_headers.h>

namespace torch::cuda {

// Defines on the module object of _CUDAC what torch._C can only answer with "no" in a build without CUDA: the _has_*
// flags, the questions about fused attention, cuDNN's reserve space, the AOTInductor runner. Works with a stock core and
// with a patched one. To be called with the GIL held, after torch::cuda::initModule; throws py::error_already_set.
void addCoreBindings(PyObject* cudac);

// Its part in config.cpp: _show_config, which torch.__config__.show() prints.
void addConfig(PyObject* cudac);

} // namespace torch::cuda
