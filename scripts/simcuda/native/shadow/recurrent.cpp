#include "recurrent.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

namespace shadow {
namespace {

using at::Tensor;
using c10::IValue;

Tensor tensor(const IValue& v) { return v.isNone() ? Tensor() : v.toTensor(); }

struct Network {
  int64_t mode, layers;
  bool batch_first, train, both;
  double dropout;
  std::vector<int64_t> batch_sizes;
  int64_t stride;  // weights per layer and direction
  int64_t hidden, projected;

  // Under autocast and after a flattening the weights come as columns of the one buffer: their shapes are given back.
  std::vector<Tensor> shaped(const std::vector<Tensor>& weights, int64_t features) const {
    int64_t gates = mode == 2 ? 4 : mode == 3 ? 3 : 1, directions = both ? 2 : 1, out = projected ? projected : hidden;
    std::vector<Tensor> list;
    for (size_t i = 0; i < weights.size(); i++) {
      int64_t kind = int64_t(i) % stride, layer = int64_t(i) / stride / directions;
      int64_t rows = gates * hidden, columns = 0;  // a bias
      if (kind == 0) columns = layer ? out * directions : features;
      if (kind == 1) columns = out;
      if (projected && kind == stride - 1) rows = projected, columns = hidden;
      list.push_back(columns ? weights[i].reshape({rows, columns}) : weights[i].reshape({rows}));
    }
    return list;
  }

  struct Result {
    Tensor out, hy, cy;
  };
  // mode: 0 and 1 are plain networks with relu and tanh, 2 LSTM, 3 GRU
  Result run(const Tensor& input, const std::vector<Tensor>& given, const Tensor& hx, const Tensor& cx) const {
    auto weights = shaped(given, input.size(-1));
    if (dropout > 0 && train) throw std::runtime_error("dropout between the layers of a recurrent network");
    bool bias = stride >= 4;
    auto call = [&](auto&& plain, auto&& packed) {
      if (batch_sizes.empty()) return plain(input, hx, weights, bias, layers, 0.0, train, both, batch_first);
      auto sizes = at::tensor(batch_sizes, at::TensorOptions().dtype(at::kLong));
      return packed(input, sizes, hx, weights, bias, layers, 0.0, train, both);
    };
    if (mode == 2) {
      std::vector<Tensor> state{hx, cx};
      if (batch_sizes.empty()) {
        auto [o, h, c] = at::lstm(input, state, weights, bias, layers, 0.0, train, both, batch_first);
        return {o, h, c};
      }
      auto sizes = at::tensor(batch_sizes, at::TensorOptions().dtype(at::kLong));
      auto [o, h, c] = at::lstm(input, sizes, state, weights, bias, layers, 0.0, train, both);
      return {o, h, c};
    }
    std::tuple<Tensor, Tensor> r;
    if (mode == 3)
      r = call([](auto&&... a) { return at::gru(a...); }, [](auto&&... a) { return at::gru(a...); });
    else if (mode == 1)
      r = call([](auto&&... a) { return at::rnn_tanh(a...); }, [](auto&&... a) { return at::rnn_tanh(a...); });
    else
      r = call([](auto&&... a) { return at::rnn_relu(a...); }, [](auto&&... a) { return at::rnn_relu(a...); });
    return {std::get<0>(r), std::get<1>(r), Tensor()};
  }
};

}  // namespace

void cudnn_rnn(torch::jit::Stack& stack) {
  // input, weights, stride, weight_buf, hx, cx, mode, hidden, projected, layers, batch_first, dropout, train, both,
  // batch_sizes, dropout_state
  auto a = std::move(stack);
  stack.clear();
  Network n{a[6].toInt(), a[9].toInt(), a[10].toBool(), a[12].toBool(), a[13].toBool(), a[11].toDouble(),
            a[14].toIntVector(), a[2].toInt(), a[7].toInt(), a[8].toInt()};
  auto r = n.run(a[0].toTensor(), a[1].toTensorVector(), a[4].toTensor(), tensor(a[5]));
  for (const Tensor& t : {r.out, r.hy, r.cy}) stack.emplace_back(t);
  stack.emplace_back(Tensor()), stack.emplace_back(Tensor());  // reserve and weights are the device's own
}

void cudnn_rnn_backward(torch::jit::Stack& stack) {
  // input, weights, stride, weight_buf, hx, cx, output, grad_output, grad_hy, grad_cy, mode, hidden, projected, layers,
  // batch_first, dropout, train, both, batch_sizes, dropout_state, reserve, mask
  auto a = std::move(stack);
  stack.clear();
  Network n{a[10].toInt(), a[13].toInt(), a[14].toBool(), a[16].toBool(), a[17].toBool(), a[15].toDouble(),
            a[18].toIntVector(), a[2].toInt(), a[11].toInt(), a[12].toInt()};
  // autograd of the CPU's operators, on copies
  c10::impl::ForceDispatchKeyGuard with_autograd(c10::default_included_set, c10::autocast_dispatch_keyset);
  at::AutoGradMode grad(true);
  auto leaf = [](const Tensor& t) { return t.defined() ? t.detach().clone().requires_grad_() : t; };
  std::vector<Tensor> leaves{leaf(a[0].toTensor()), leaf(a[4].toTensor())};
  Tensor cx = leaf(tensor(a[5]));
  if (cx.defined()) leaves.push_back(cx);
  std::vector<Tensor> weights;
  for (const Tensor& w : a[1].toTensorVector()) weights.push_back(leaf(w));
  leaves.insert(leaves.end(), weights.begin(), weights.end());
  auto r = n.run(leaves[0], weights, leaves[1], cx);
  std::vector<Tensor> outputs, grads;
  const Tensor results[] = {r.out, r.hy, r.cy};
  for (int i = 0; i < 3; i++)
    if (Tensor g = tensor(a[7 + i]); g.defined() && results[i].defined()) {
      outputs.push_back(results[i]);
      grads.push_back(g.detach());
    }
  auto found = torch::autograd::grad(outputs, leaves, grads, std::nullopt, false, true);
  for (size_t i = 0; i < found.size(); i++)
    if (!found[i].defined()) found[i] = at::zeros_like(leaves[i]);
  size_t first = cx.defined() ? 3 : 2;
  stack.emplace_back(found[0].detach()), stack.emplace_back(found[1].detach());
  stack.emplace_back(cx.defined() ? found[2].detach() : Tensor());
  c10::List<Tensor> list;
  for (size_t i = first; i < found.size(); i++) list.push_back(found[i].detach());
  stack.emplace_back(list);
}

}  // namespace shadow
