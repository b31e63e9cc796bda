// A c10d backend for devices whose vendor has no collective library yet: tensors go through the host, a CPU backend
// (Gloo) does the communication. Every collective is complete when its call returns.
#include <third_device/backend.h>
#include <third_device/distributed.h>

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <vector>

namespace third_device {
namespace {

using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;

// A finished operation. DDP asks for its future.
struct Finished final : c10d::Work {
  Finished(c10d::OpType type, Tensors outputs) : c10d::Work(-1, type), outputs_(std::move(outputs)) {
    std::vector<c10::Device> devices;
    for (const auto& tensor : outputs_) {
      if (tensor.is_privateuseone() && (devices.empty() || devices.back() != tensor.device())) {
        devices.push_back(tensor.device());
      }
    }
    future_ = c10::make_intrusive<at::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
    future_->markCompleted(c10::IValue(outputs_));
    finish();
  }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  Tensors outputs_;
  c10::intrusive_ptr<at::ivalue::Future> future_;
};

Tensors to_host(const Tensors& tensors) {
  Tensors made;
  made.reserve(tensors.size());
  for (const auto& tensor : tensors) made.push_back(tensor.cpu().contiguous());
  return made;
}

std::vector<Tensors> to_host(const std::vector<Tensors>& lists) {
  std::vector<Tensors> made;
  made.reserve(lists.size());
  for (const auto& list : lists) made.push_back(to_host(list));
  return made;
}

void to_device(const Tensors& host, Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(host[i]);
}

void to_device(const std::vector<Tensors>& host, std::vector<Tensors>& lists) {
  for (size_t i = 0; i < lists.size(); ++i) to_device(host[i], lists[i]);
}

Tensors flat(const std::vector<Tensors>& lists) {
  Tensors made;
  for (const auto& list : lists) made.insert(made.end(), list.begin(), list.end());
  return made;
}

class HostStaged final : public c10d::Backend {
 public:
  explicit HostStaged(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return c10::get_privateuse1_backend() + "_host"; }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Tensors host = to_host(tensors);
    inner_->broadcast(host, options)->wait();
    return done(c10d::OpType::BROADCAST, host, tensors);
  }
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors host = to_host(tensors);
    inner_->allreduce(host, options)->wait();
    return done(c10d::OpType::ALLREDUCE, host, tensors);
  }
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    Tensors host = to_host(tensors);
    inner_->allreduce_coalesced(host, options)->wait();
    return done(c10d::OpType::ALLREDUCE_COALESCED, host, tensors);
  }
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Tensors host = to_host(tensors);
    inner_->reduce(host, options)->wait();
    if (options.rootRank == getRank()) to_device(host, tensors);
    return c10::make_intrusive<Finished>(c10d::OpType::REDUCE, tensors);
  }
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    Tensors host = to_host(inputs);
    std::vector<Tensors> gathered = to_host(outputs);
    inner_->allgather(gathered, host, options)->wait();
    to_device(gathered, outputs);
    return c10::make_intrusive<Finished>(c10d::OpType::ALLGATHER, flat(outputs));
  }
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    at::Tensor host = input.cpu().contiguous();
    at::Tensor gathered = output.cpu().contiguous();
    inner_->_allgather_base(gathered, host, options)->wait();
    Tensors outputs{output};
    return done(c10d::OpType::_ALLGATHER_BASE, {gathered}, outputs);
  }
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    Tensors host = to_host(inputs);
    std::vector<Tensors> gathered = to_host(outputs);
    inner_->gather(gathered, host, options)->wait();
    to_device(gathered, outputs);
    return c10::make_intrusive<Finished>(c10d::OpType::GATHER, flat(outputs));
  }
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    Tensors host = to_host(outputs);
    std::vector<Tensors> sent = to_host(inputs);
    inner_->scatter(host, sent, options)->wait();
    return done(c10d::OpType::SCATTER, host, outputs);
  }
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override {
    Tensors host = to_host(outputs);
    std::vector<Tensors> sent = to_host(inputs);
    inner_->reduce_scatter(host, sent, options)->wait();
    return done(c10d::OpType::REDUCE_SCATTER, host, outputs);
  }
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    at::Tensor host = input.cpu().contiguous();
    at::Tensor received = output.cpu().contiguous();
    inner_->alltoall_base(received, host, output_sizes, input_sizes, options)->wait();
    Tensors outputs{output};
    return done(c10d::OpType::ALLTOALL_BASE, {received}, outputs);
  }
  Work send(Tensors& tensors, int to, int tag) override {
    Tensors host = to_host(tensors);
    inner_->send(host, to, tag)->wait();
    return c10::make_intrusive<Finished>(c10d::OpType::SEND, tensors);
  }
  Work recv(Tensors& tensors, int from, int tag) override {
    Tensors host = to_host(tensors);
    inner_->recv(host, from, tag)->wait();
    return done(c10d::OpType::RECV, host, tensors);
  }
  Work barrier(const c10d::BarrierOptions& options) override {
    for (int device = 0; is_initialized() && device < device_count(); ++device) synchronize_device(device);
    inner_->barrier(options)->wait();
    return c10::make_intrusive<Finished>(c10d::OpType::BARRIER, Tensors());
  }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

 private:
  Work done(c10d::OpType type, const Tensors& host, Tensors& tensors) {
    to_device(host, tensors);
    return c10::make_intrusive<Finished>(type, tensors);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> host_staged(const c10::intrusive_ptr<c10d::Backend>& inner) {
  return c10::make_intrusive<HostStaged>(inner);
}

}  // namespace third_device
