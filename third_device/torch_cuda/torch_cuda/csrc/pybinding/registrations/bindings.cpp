#include "bindings.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAConfig.h>
#include <ATen/native/cudnn/BatchNorm.h>
#include <ATen/native/transformers/cuda/sdp_utils.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cuda.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/utils/pybind.h>
#if defined(USE_ROCM) && defined(TORCH_CUDA_CORE_BUILT)
#include <torch/csrc/jit/codegen/fuser/codegen.h>
#include <torch/csrc/jit/codegen/fuser/cuda/resource_strings.h>
#endif

namespace torch::cuda {

namespace {

void addFlags(py::module& m) {
  m.attr("_has_cuda") = true;
  m.attr("_has_cudnn") = at::detail::getCUDAHooks().compiledWithCuDNN();
  m.attr("_has_cusparselt") = AT_CUSPARSELT_ENABLED() != 0;
  m.attr("_has_magma") = at::hasMAGMA();
  if (py::hasattr(py::module::import("torch._C"), "_has_gds")) { // from 2.14 on
#ifdef TORCH_CUDA_HAS_CUFILE
    m.attr("_has_gds") = true;
#else
    m.attr("_has_gds") = false;
#endif
  }
}

void addAttention(py::module& m) {
  m.def("_is_flash_attention_available", &sdp::is_flash_attention_available);
  m.def("_can_use_flash_attention", &sdp::can_use_flash_attention);
  m.def("_can_use_mem_efficient_attention", &sdp::can_use_mem_efficient_attention);
  m.def("_can_use_cudnn_attention", &sdp::can_use_cudnn_attention);
}

void addBatchNorm(py::module& m) {
  m.def(
      "_get_cudnn_batch_norm_reserve_space_size",
      &at::native::_get_cudnn_batch_norm_reserve_space_size,
      py::arg("input"),
      py::arg("training"));
}

using Constants = std::unordered_map<std::string, at::Tensor>;

// As 2.8 and later bind a model's constants.
template <typename Runner>
auto addConstants(py::class_<Runner>& runner, int) -> decltype(&Runner::extract_constants_map, void()) {
  runner.def("extract_constants_map", &Runner::extract_constants_map);
  runner.def(
      "update_constant_buffer",
      py::overload_cast<Constants&, bool, bool, bool>(&Runner::update_constant_buffer),
      py::arg("tensor_map"),
      py::arg("use_inactive"),
      py::arg("validate_full_updates"),
      py::arg("user_managed") = false);
  runner.def("swap_constant_buffer", &Runner::swap_constant_buffer);
  runner.def("free_inactive_constant_buffer", &Runner::free_inactive_constant_buffer);
}

// What 2.9 and later add one by one.
template <typename Runner, typename = void>
struct TakesBlob : std::false_type {};
template <typename Runner>
struct TakesBlob<Runner, std::void_t<decltype(&Runner::update_constant_buffer_from_blob)>> : std::true_type {};

template <typename Runner, typename = void>
struct TakesFromCpu : std::false_type {};
template <typename Runner>
struct TakesFromCpu<
    Runner,
    std::void_t<decltype(std::declval<Runner&>().update_constant_buffer_from_cpu(std::declval<Constants&>(), true, true))>>
    : std::true_type {};

template <typename Runner, typename = void>
struct TellsLoaded : std::false_type {};
template <typename Runner>
struct TellsLoaded<Runner, std::void_t<decltype(&Runner::did_call_load_constants)>> : std::true_type {};

template <typename Runner>
void addLaterConstants(py::class_<Runner>& runner) {
  if constexpr (TakesBlob<Runner>::value) {
    runner.def("update_constant_buffer_from_blob", &Runner::update_constant_buffer_from_blob, py::arg("weights_path"));
  }
  if constexpr (TakesFromCpu<Runner>::value) {
    runner.def(
        "update_constant_buffer_from_cpu",
        py::overload_cast<Constants&, bool, bool>(&Runner::update_constant_buffer_from_cpu),
        py::arg("tensor_map"),
        py::arg("use_inactive"),
        py::arg("validate_full_updates"));
  }
  if constexpr (TellsLoaded<Runner>::value) {
    runner.def("did_call_load_constants", &Runner::did_call_load_constants);
  }
}

// Overloads of the constructor that only some releases have.
template <typename Runner>
void addConstructors(py::class_<Runner>& runner) {
  using String = const std::string&;
  if constexpr (std::is_constructible_v<Runner, String, int, String, String, bool>) {
    runner.def(py::init<String, int, String, String, const bool>());
  }
  if constexpr (std::is_constructible_v<Runner, String, size_t, String, String, Constants&>) {
    runner.def(
        py::init<String, size_t, String, String, Constants&>(),
        py::arg("model_so_path"),
        py::arg("num_models"),
        py::arg("device_str"),
        py::arg("cubin_dir"),
        py::arg("constants"));
  }
}

// Up to 2.7.
template <typename Runner>
void addConstants(py::class_<Runner>& runner, long) {
  runner.def("update_constant_buffer", py::overload_cast<Constants&, bool, bool>(&Runner::update_constant_buffer));
}

void addAotiRunner(py::module& m) {
  using Runner = inductor::AOTIModelContainerRunnerCuda;
  if (py::detail::get_type_info(typeid(Runner))) {
    return; // the CPU half of an official wheel binds it itself, and pybind11 knows a type once
  }
  auto aoti = m.def_submodule("_aoti");
  py::class_<Runner> runner(aoti, "AOTIModelContainerRunnerCuda");
  runner.def(py::init<const std::string&, int>());
  runner.def(py::init<const std::string&, int, const std::string&>());
  runner.def(py::init<const std::string&, int, const std::string&, const std::string&>());
  addConstructors(runner);
  runner.def("run", &Runner::run, py::arg("inputs"), py::arg("stream_handle") = nullptr);
  runner.def("get_call_spec", &Runner::get_call_spec);
  runner.def("get_constant_names_to_dtypes", &Runner::getConstantNamesToDtypes);
  runner.def("get_constant_names_to_original_fqns", &Runner::getConstantNamesToOriginalFQNs);
  addConstants(runner, 0); // the first that the release has
  addLaterConstants(runner);
}

c10::StorageImpl* storageAt(size_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<c10::StorageImpl*>(address);
}

// The series binds these in the core (patch storage-helpers-generic); a stock core without CUDA has them nowhere.
void addStorageHelpers(py::module& m) {
  if (py::hasattr(py::module::import("torch._C"), "_storage_Use_Count")) {
    return;
  }
  m.def("_storage_Use_Count", [](size_t address) {
    return c10::raw::weak_intrusive_ptr::use_count(storageAt(address));
  });
  m.def("_set_storage_access_error_msg", [](const at::Tensor& tensor, std::string message) {
    tensor.unsafeGetTensorImpl()->release_storage_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
  });
  m.def("_set_storage_data_ptr_access_error_msg", [](size_t address, std::string message) {
    storageAt(address)->release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
  });
  m.def("_tensors_data_ptrs_at_indices_equal", [](py::list& tensors, py::list& pointers, py::list& indices) {
    return std::all_of(indices.begin(), indices.end(), [&](py::handle index) {
      const auto tensor = tensors[index].cast<at::Tensor>();
      return reinterpret_cast<int64_t>(tensor.data_ptr()) == pointers[index].cast<int64_t>();
    });
  });
}

// Kineto with CUPTI, where the loader has opened libtorch_kineto_cuda. The patched core asks it which activities there are;
// an unmodified one has the answer compiled in, as torch._C._autograd's, which is there once torch.autograd asks for it.
void addProfiler(py::module& m) {
  using Register = bool (*)();
  const auto take = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "torch_kineto_cuda_register"));
  if (take == nullptr || !take()) {
    return;
  }
#ifndef TORCH_CUDA_CORE_BUILT
  m.def("_autograd_init", [init = py::object(py::module::import("torch._C").attr("_autograd_init"))] {
    py::object done = init();
    auto autograd = py::module::import("torch._C._autograd");
    autograd.attr("_supported_activities") =
        py::cpp_function([theirs = py::object(autograd.attr("_supported_activities"))] {
          py::set activities(theirs());
          if (at::getNumGPUs() > 0) {
            activities.add(profiler::impl::ActivityType::CUDA);
          }
          return activities;
        });
    return done;
  });
#endif
}

#ifdef USE_ROCM
// What a core that was compiled without USE_ROCM leaves to us (patch core-without-use-rocm).
void setRocmDefaults() {
  at::globalContext().setBenchmarkCuDNN(true);
#ifdef TORCH_CUDA_CORE_BUILT
  namespace texts = jit::fuser::cuda;
  jit::fuser::gpuTexts() = {
      texts::half_support_literal, texts::bfloat16_support_literal, &texts::type_declarations_template};
#endif
}
#endif

} // namespace

void addCoreBindings(PyObject* cudac) {
  auto m = py::reinterpret_borrow<py::module>(cudac);
  addFlags(m);
  addAttention(m);
  addBatchNorm(m);
  addAotiRunner(m);
  addStorageHelpers(m);
  addProfiler(m);
  addConfig(cudac);
#ifdef USE_ROCM
  setRocmDefaults();
#endif
}

} // namespace torch::cuda
