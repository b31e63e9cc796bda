// torch.__config__.show() with CUDA: the core's text was made without it, and its last line says so setting by setting.
#include "bindings.h"

#include <map>
#include <string>

#include <ATen/Version.h>
#include <torch/csrc/utils/pybind.h>

namespace caffe2 {
// caffe2/core/common.h, which torch does not install
const std::map<std::string, std::string>& GetBuildOptions();
} // namespace caffe2

namespace torch::cuda {

namespace {

// What this build was made with, in place of what the core says of the same names. TORCH_CUDA_SETTINGS is a list of
// {"NAME", "value"}; an empty value is not told, as upstream tells none.
std::string settings() {
  auto known = caffe2::GetBuildOptions();
  const std::map<std::string, std::string> ours = {TORCH_CUDA_SETTINGS};
  for (const auto& [name, value] : ours) {
    known[name] = value;
  }
  std::string line = "  - Build settings: ";
  for (const auto& [name, value] : known) {
    if (!value.empty()) {
      line += name + "=" + value + ", ";
    }
  }
  return line;
}

std::string showConfig() {
  auto text = at::show_config();
  const auto begin = text.find("  - Build settings: ");
  if (begin == std::string::npos) {
    return text;
  }
  return text.replace(begin, text.find('\n', begin) - begin, settings());
}

} // namespace

void addConfig(PyObject* cudac) {
  py::reinterpret_borrow<py::module>(cudac).def("_show_config", &showConfig);
}

} // namespace torch::cuda
