// Graphs as PyTorch sees them: torch.accelerator.Graph, and what cannot be in one.
#include <third_device/backend.h>
#include <third_device/compat.h>

#if TD_GRAPH_REGISTRY
#include <ATen/core/GraphImplInterface.h>
#endif

namespace third_device {

void refuse_in_capture(int device, const std::string& reason) {
  if (!is_capturing(device)) return;
  end_capture_broken(reason);
  TORCH_CHECK(false, "a ", c10::get_privateuse1_backend(), " graph that is captured cannot have ", reason);
}

#if TD_GRAPH_REGISTRY
namespace {

struct AcceleratorGraph final : at::GraphImplInterface {
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph_.begin(pool); }
  void capture_end() override { graph_.end(); }
  void instantiate() override {}  // the end of the capture did it
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {
    TORCH_CHECK(false, "a ", c10::get_privateuse1_backend(), " graph is not written to a file: the driver table has no such "
                "function");
  }

 private:
  Graph graph_;
};

}  // namespace

void offer_graphs() {
  const auto name = c10::DeviceTypeName(kDevice, /*lower_case=*/false);
  auto* registry = at::GraphImplRegistry();
  if (!has_graphs() || registry->Has(name)) return;
  registry->Register(name, [](const at::GraphImplArgs&) -> std::unique_ptr<at::GraphImplInterface> {
    return std::make_unique<AcceleratorGraph>();
  });
}
#else
void offer_graphs() {}
#endif

}  // namespace third_device
