// Collectives through the host: tensors are copied there, a CPU backend (Gloo) does the communication. A collective is
// complete when its call returns; a message between two ranks, which the other may not wait for yet, when its work is
// waited for. A backend derives its own class from HostStaged and replaces the collectives that its library has.
#pragma once

#include <third_device/backend.h>
#include <third_device/compat.h>
#include <third_device/distributed.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace third_device {
namespace host_staging {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

inline c10::intrusive_ptr<at::ivalue::Future> future_of(const Tensors& outputs) {
  std::vector<c10::Device> devices;
  for (const auto& tensor : outputs) {
    if (tensor.is_privateuseone() && std::find(devices.begin(), devices.end(), tensor.device()) == devices.end()) {
      devices.push_back(tensor.device());
    }
  }
  auto made = c10::make_intrusive<at::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  made->markCompleted(c10::IValue(outputs));
  return made;
}

// A finished operation. DDP asks for its future.
struct Finished final : c10d::Work {
  Finished(c10d::OpType type, Tensors outputs)
      : c10d::Work(-1, type), outputs_(std::move(outputs)), future_(future_of(outputs_)) {
    finish();
  }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  void blockCurrentStream() TD_SINCE(2.9) {}
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  Tensors outputs_;
  c10::intrusive_ptr<at::ivalue::Future> future_;
};

// A message on its way. What came is brought to the device by whoever waits first, or finds it there.
struct Message final : c10d::Work {
  Message(c10d::OpType type, WorkPtr inner, Tensors host, Tensors outputs, std::function<void()> arrive)
      : c10d::Work(-1, type),
        inner_(std::move(inner)),
        host_(std::move(host)),
        outputs_(std::move(outputs)),
        arrive_(std::move(arrive)) {}
  bool isCompleted() override {
    if (!inner_->isCompleted()) return false;
    if (inner_->isSuccess()) arrive();
    return true;
  }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  // Once: Gloo waits for another message where its own is asked twice.
  bool wait(std::chrono::milliseconds timeout) override {
    std::lock_guard<std::mutex> hold(waiting_);
    if (!waited_) waited_ = inner_->wait(timeout);
    if (waited_) arrive();
    return waited_;
  }
  void blockCurrentStream() TD_SINCE(2.9) { wait(kNoTimeout); }
  void abort() override { inner_->abort(); }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    return future_of(outputs_);
  }

 private:
  void arrive() {
    std::lock_guard<std::mutex> hold(arriving_);
    if (arrive_) arrive_();
    arrive_ = nullptr;
  }

  WorkPtr inner_;
  Tensors host_;  // lives as long as it is sent
  Tensors outputs_;
  std::mutex waiting_;
  bool waited_ = false;
  std::mutex arriving_;
  std::function<void()> arrive_;
};

// All messages and collectives between startCoalescing and endCoalescing.
struct Together final : c10d::Work {
  explicit Together(std::vector<WorkPtr> parts) : c10d::Work(-1, c10d::OpType::COALESCED), parts_(std::move(parts)) {}
  bool isCompleted() override {
    return std::all_of(parts_.begin(), parts_.end(), [](const WorkPtr& part) { return part->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const WorkPtr& part) { return part->isSuccess(); });
  }
  bool wait(std::chrono::milliseconds timeout) override {
    bool done = true;
    for (const auto& part : parts_) done = part->wait(timeout) && done;
    return done;
  }
  void blockCurrentStream() TD_SINCE(2.9) { wait(kNoTimeout); }
  Tensors result() override {
    Tensors made;
    for (const auto& part : parts_) {
      const Tensors some = part->result();
      made.insert(made.end(), some.begin(), some.end());
    }
    return made;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    return future_of(result());
  }

 private:
  std::vector<WorkPtr> parts_;
};

inline Tensors to_host(const Tensors& tensors) {
  Tensors made;
  made.reserve(tensors.size());
  for (const auto& tensor : tensors) made.push_back(tensor.cpu().resolve_conj().resolve_neg().contiguous());
  return made;
}

inline std::vector<Tensors> to_host(const std::vector<Tensors>& lists) {
  std::vector<Tensors> made;
  made.reserve(lists.size());
  for (const auto& list : lists) made.push_back(to_host(list));
  return made;
}

// Autograd sees no change in place, as it sees none where a vendor's library writes the memory.
inline void to_device(const Tensors& host, Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].variable_data().copy_(host[i]);
}

inline void to_device(const std::vector<Tensors>& host, std::vector<Tensors>& lists) {
  for (size_t i = 0; i < lists.size(); ++i) to_device(host[i], lists[i]);
}

inline Tensors flat(const std::vector<Tensors>& lists) {
  Tensors made;
  for (const auto& list : lists) made.insert(made.end(), list.begin(), list.end());
  return made;
}

// The bytes of a contiguous tensor of the host. What moves elements and does not look at them moves bytes: Gloo knows
// eight types.
inline at::Tensor bytes(const at::Tensor& host) { return host.flatten().view(at::kByte); }

inline Tensors bytes(const Tensors& host) {
  Tensors made;
  made.reserve(host.size());
  for (const auto& tensor : host) made.push_back(bytes(tensor));
  return made;
}

inline std::vector<Tensors> bytes(const std::vector<Tensors>& lists) {
  std::vector<Tensors> made;
  made.reserve(lists.size());
  for (const auto& list : lists) made.push_back(bytes(list));
  return made;
}

inline int64_t rows_to_bytes(const at::Tensor& host, int64_t rows) {
  return host.size(0) == 0 ? 0 : rows * static_cast<int64_t>(host.nbytes()) / host.size(0);
}

}  // namespace host_staging

class HostStaged : public c10d::Backend {
 public:
  using Tensors = host_staging::Tensors;
  using WorkPtr = host_staging::WorkPtr;

  explicit HostStaged(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return c10::get_privateuse1_backend() + "_host"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Tensors host = host_staging::to_host(tensors);
    Tensors moved = host_staging::bytes(host);
    inner_->broadcast(moved, options)->wait();
    return done(c10d::OpType::BROADCAST, host, tensors);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors host = host_staging::to_host(tensors);
    reduce_all(host, options.reduceOp);
    return done(c10d::OpType::ALLREDUCE, host, tensors);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    Tensors host = host_staging::to_host(tensors);
    for (auto& tensor : host) {
      Tensors one{tensor};
      reduce_all(one, options.reduceOp);
      tensor = one[0];
    }
    return done(c10d::OpType::ALLREDUCE_COALESCED, host, tensors);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Tensors host = host_staging::to_host(tensors);
    reduce_all(host, options.reduceOp);
    if (options.rootRank == getRank()) host_staging::to_device(host, tensors);
    return finished(c10d::OpType::REDUCE, tensors);
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    Tensors sent = host_staging::bytes(host_staging::to_host(inputs));
    std::vector<Tensors> host = host_staging::to_host(outputs);
    std::vector<Tensors> gathered = host_staging::bytes(host);
    inner_->allgather(gathered, sent, options)->wait();
    host_staging::to_device(host, outputs);
    return finished(c10d::OpType::ALLGATHER, host_staging::flat(outputs));
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override {
    Tensors sent = host_staging::bytes(host_staging::to_host(inputs));
    std::vector<Tensors> host = host_staging::to_host(outputs);
    for (size_t i = 0; i < sent.size(); ++i) {
      std::vector<Tensors> gathered(1);
      for (auto& list : host) gathered[0].push_back(host_staging::bytes(list[i]));
      Tensors one{sent[i]};
      inner_->allgather(gathered, one, options)->wait();
    }
    host_staging::to_device(host, outputs);
    return finished(c10d::OpType::ALLGATHER_COALESCED, host_staging::flat(outputs));
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    Tensors outputs{output};
    Tensors inputs{input};
    return gather_into(c10d::OpType::_ALLGATHER_BASE, outputs, inputs, options);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override {
    return gather_into(c10d::OpType::COALESCED, outputs, inputs, options);
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    Tensors sent = host_staging::bytes(host_staging::to_host(inputs));
    std::vector<Tensors> host = host_staging::to_host(outputs);
    std::vector<Tensors> gathered = host_staging::bytes(host);
    inner_->gather(gathered, sent, options)->wait();
    host_staging::to_device(host, outputs);
    return finished(c10d::OpType::GATHER, host_staging::flat(outputs));
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    Tensors host = host_staging::to_host(outputs);
    Tensors received = host_staging::bytes(host);
    std::vector<Tensors> sent = host_staging::bytes(host_staging::to_host(inputs));
    inner_->scatter(received, sent, options)->wait();
    return done(c10d::OpType::SCATTER, host, outputs);
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override {
    Tensors host;
    for (const auto& list : inputs) {
      check_one_for_each_rank("reduce_scatter", list.size());
      Tensors parts = host_staging::to_host(list);
      reduce_all(parts, options.reduceOp);
      host.push_back(parts[static_cast<size_t>(getRank())]);
    }
    return done(c10d::OpType::REDUCE_SCATTER, host, outputs);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    Tensors outputs{output};
    Tensors inputs{input};
    return reduce_into(c10d::OpType::_REDUCE_SCATTER_BASE, outputs, inputs, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override {
    return reduce_into(c10d::OpType::COALESCED, outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    at::Tensor host = input.cpu().contiguous();
    at::Tensor received = output.cpu().contiguous();
    std::vector<int64_t> out;
    std::vector<int64_t> in;
    for (const int64_t rows : output_sizes) out.push_back(host_staging::rows_to_bytes(received, rows));
    for (const int64_t rows : input_sizes) in.push_back(host_staging::rows_to_bytes(host, rows));
    at::Tensor to = host_staging::bytes(received);
    at::Tensor from = host_staging::bytes(host);
    inner_->alltoall_base(to, from, out, in, options)->wait();
    Tensors outputs{output};
    return done(c10d::OpType::ALLTOALL_BASE, {received}, outputs);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    check_one_for_each_rank("alltoall", outputs.size());
    check_one_for_each_rank("alltoall", inputs.size());
    Tensors host = host_staging::to_host(outputs);
    std::vector<int64_t> out;
    std::vector<int64_t> in;
    const Tensors sent = host_staging::bytes(host_staging::to_host(inputs));
    for (const auto& tensor : host) out.push_back(static_cast<int64_t>(tensor.nbytes()));
    for (const auto& tensor : sent) in.push_back(tensor.numel());
    at::Tensor from = at::cat(sent);
    at::Tensor to = at::empty({std::accumulate(out.begin(), out.end(), int64_t{0})}, at::kByte);
    const std::vector<int64_t> sizes = out;  // Gloo takes what it is given
    inner_->alltoall_base(to, from, out, in, options)->wait();
    const Tensors parts = to.split_with_sizes(sizes);
    for (size_t i = 0; i < host.size(); ++i) host_staging::bytes(host[i]).copy_(parts[i]);
    return done(c10d::OpType::ALLTOALL, host, outputs);
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    Tensors host = host_staging::to_host(tensors);
    Tensors moved = host_staging::bytes(host);
    return message(c10d::OpType::SEND, inner_->send(moved, to, tag), moved, tensors, nullptr);
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    Tensors host = host_staging::to_host(tensors);
    Tensors moved = host_staging::bytes(host);
    return message(c10d::OpType::RECV, inner_->recv(moved, from, tag), moved, tensors, arrival(host, tensors));
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    Tensors host = host_staging::to_host(tensors);
    Tensors moved = host_staging::bytes(host);
    return message(c10d::OpType::RECVANYSOURCE, inner_->recvAnysource(moved, tag), moved, tensors, arrival(host, tensors));
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    if (is_initialized() && options.device_ids.empty()) {
      for (int device = 0; device < device_count(); ++device) synchronize_device(device);
    }
    for (const int64_t device : options.device_ids) {
      check_device(static_cast<int>(device));
      ensure_init();
      synchronize_device(static_cast<int>(device));
    }
    inner_->barrier(options)->wait();
    return finished(c10d::OpType::BARRIER, Tensors());
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    inner_->monitoredBarrier(options, wait_all_ranks);
  }

  bool supportsCoalescing() const TD_SINCE(2.7) { return true; }
  void startCoalescing() override {
    TORCH_CHECK(!coalescing_, "startCoalescing was called twice without endCoalescing");
    coalescing_ = true;
  }
  WorkPtr endCoalescing() override {
    TORCH_CHECK(coalescing_, "endCoalescing was called without startCoalescing");
    coalescing_ = false;
    return c10::make_intrusive<host_staging::Together>(std::exchange(coalesced_, {}));
  }
  void setTimeout(std::chrono::milliseconds timeout) TD_SINCE(2.8) { set_timeout(*inner_, timeout, 0); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

 protected:
  // Only later releases have it.
  template <typename Inner>
  static auto set_timeout(Inner& inner, std::chrono::milliseconds timeout, int) -> decltype(inner.setTimeout(timeout)) {
    inner.setTimeout(timeout);
  }
  template <typename Inner>
  static void set_timeout(Inner&, std::chrono::milliseconds, long) {}

  WorkPtr kept(WorkPtr work) {
    if (coalescing_) coalesced_.push_back(work);
    return work;
  }
  WorkPtr finished(c10d::OpType type, Tensors tensors) {
    return kept(c10::make_intrusive<host_staging::Finished>(type, std::move(tensors)));
  }
  WorkPtr message(c10d::OpType type, WorkPtr inner, Tensors host, Tensors tensors, std::function<void()> arrive) {
    return kept(c10::make_intrusive<host_staging::Message>(type, std::move(inner), std::move(host), std::move(tensors),
                                             std::move(arrive)));
  }
  static std::function<void()> arrival(Tensors host, Tensors tensors) {
    return [host = std::move(host), tensors = std::move(tensors)]() mutable { host_staging::to_device(host, tensors); };
  }
  WorkPtr done(c10d::OpType type, const Tensors& host, Tensors& tensors) {
    host_staging::to_device(host, tensors);
    return finished(type, tensors);
  }

  void check_one_for_each_rank(const char* what, size_t count) const {
    TORCH_CHECK(count == static_cast<size_t>(getSize()), what, " needs one tensor for each of the ", getSize(),
                " ranks, not ", count);
  }

  // Multiplies by the rank's own factor, which torch.distributed._make_nccl_premul_sum has put beside the operation.
  static void multiply(at::Tensor& tensor, const c10d::ReduceOp& op) {
    const auto* beside = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(beside != nullptr, "PREMUL_SUM needs a factor; next: torch.distributed._make_nccl_premul_sum(factor)");
    if (beside->tensor_factor.defined()) {
      tensor.mul_(beside->tensor_factor.cpu());
    } else {
      tensor.mul_(beside->double_factor);
    }
  }

  // Reduces tensors of the host in place, on all ranks: Gloo has no mean, no factors, and no
  // complex numbers.
  void reduce_all(Tensors& host, const c10d::ReduceOp& op) {
    const bool mean = op == c10d::ReduceOp::AVG;
    const bool scaled = op == c10d::ReduceOp::PREMUL_SUM;
    for (auto& tensor : host) {
      c10d::AllreduceOptions options;
      options.reduceOp = mean || scaled ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
      if (scaled) multiply(tensor, op);
      at::Tensor numbers = tensor;
      if (tensor.is_complex()) {
        TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "complex numbers can be summed, and nothing else");
        numbers = at::view_as_real(tensor);
      }
      const auto type = numbers.scalar_type();
      // Truth values: Gloo adds and multiplies them as bytes; 2 is none.
      if (type == at::kBool && options.reduceOp == c10d::ReduceOp::SUM) options.reduceOp = c10d::ReduceOp(c10d::ReduceOp::MAX);
      if (type == at::kBool && options.reduceOp == c10d::ReduceOp::PRODUCT) {
        options.reduceOp = c10d::ReduceOp(c10d::ReduceOp::MIN);
      }
      const bool wide = type == at::kShort || type == at::kUInt16;
      Tensors one{wide ? numbers.to(at::kInt) : numbers};
      inner_->allreduce(one, options)->wait();
      if (wide) numbers.copy_(one[0]);
      if (mean) at::isIntegralType(type, true) ? tensor.floor_divide_(getSize()) : tensor.div_(getSize());
    }
  }

  WorkPtr gather_into(c10d::OpType type, Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
    TORCH_CHECK(outputs.size() == inputs.size(), "as many outputs as inputs are needed");
    Tensors host = host_staging::to_host(outputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      TORCH_CHECK(outputs[i].dtype() == inputs[i].dtype() && outputs[i].numel() == inputs[i].numel() * getSize(),
                  "the output must have the type of the input and ", getSize(), " times its elements");
      Tensors sent{host_staging::bytes(inputs[i].cpu().contiguous())};
      std::vector<Tensors> parts{host_staging::bytes(host[i]).chunk(getSize())};
      if (sent[0].numel() == 0) continue;
      inner_->allgather(parts, sent, options)->wait();
    }
    return done(type, host, outputs);
  }

  WorkPtr reduce_into(c10d::OpType type, Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
    TORCH_CHECK(outputs.size() == inputs.size(), "as many outputs as inputs are needed");
    Tensors host;
    for (size_t i = 0; i < inputs.size(); ++i) {
      TORCH_CHECK(outputs[i].dtype() == inputs[i].dtype() && outputs[i].numel() * getSize() == inputs[i].numel(),
                  "the input must have the type of the output and ", getSize(), " times its elements");
      Tensors whole{inputs[i].cpu().contiguous().flatten()};
      reduce_all(whole, options.reduceOp);
      const int64_t part = outputs[i].numel();
      host.push_back(whole[0].narrow(0, getRank() * part, part).view(outputs[i].sizes()));
    }
    return done(type, host, outputs);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace third_device
