#include "attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "arguments.h"
#include "random.h"

namespace shadow {
namespace {

using at::Tensor;
using torch::jit::Stack;

struct Options {
  std::optional<Tensor> bias;
  bool causal;
  double scale;
  double dropout = 0;
  Philox state = {};  // of which the dropped ones are drawn; the same in both directions
};

double scale_of(const c10::IValue& v, const Tensor& q) { return v.isNone() ? 1.0 / std::sqrt(double(q.size(-1))) : v.toDouble(); }

// Several heads of the queries may share one of the keys and values.
Tensor for_each_head(const Tensor& shared, const Tensor& q) {
  const int64_t times = shared.dim() == 4 && shared.size(1) ? q.size(1) / shared.size(1) : 1;
  return (times > 1 ? shared.repeat_interleave(times, 1) : shared).to(at::kFloat);
}
Tensor over_sharing_heads(const Tensor& grad, const Tensor& shared) {
  if (grad.dim() != 4 || grad.size(1) == shared.size(1)) return grad;
  return grad.unflatten(1, {shared.size(1), grad.size(1) / shared.size(1)}).sum(2);
}

Tensor scores(const Tensor& q, const Tensor& k, const Options& o) {
  auto s = at::matmul(q.to(at::kFloat) * o.scale, for_each_head(k, q).transpose(-2, -1));
  if (o.bias) s = s + o.bias->to(at::kFloat);
  if (o.causal) {
    auto seen = at::ones({q.size(-2), k.size(-2)}, at::TensorOptions().dtype(at::kBool)).tril();
    s.masked_fill_(seen.logical_not(), -std::numeric_limits<double>::infinity());
  }
  return s;
}

Tensor drawn(const Philox& state, at::IntArrayRef sizes) { return at::empty(sizes).uniform_(0, 1, generator_of(state)); }

// What the probabilities are multiplied with.
Tensor kept(const Options& o, at::IntArrayRef sizes) {
  return (drawn(o.state, sizes) > o.dropout).to(at::kFloat) / (1 - o.dropout);
}

struct Attended {
  Tensor out, logsumexp, probabilities;  // those that are dropped are negative
};
Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Options& o) {
  auto s = scores(q, k, o), p = at::softmax(s, -1), used = p, shown = p;
  if (o.dropout > 0) {
    auto factor = kept(o, p.sizes());
    used = p * factor;
    shown = at::where(factor > 0, p, -p);
  }
  return {at::matmul(used, for_each_head(v, q)).to(q.scalar_type()), at::logsumexp(s, {-1}), shown};
}

struct Gradients {
  Tensor q, k, v, bias;
};
// `done`: what the forward pass gave. Its keys may have been more than those here: ring attention gives a part at a time,
// and the result and the sums of all. A row of sums is longer where there was a tile to fill.
Gradients attend_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Attended& done,
                          const Options& o) {
  auto s = scores(q, k, o), sums = done.logsumexp.dim() == s.dim() ? done.logsumexp : done.logsumexp.unsqueeze(-1);
  auto p = at::exp(s - sums.slice(-2, 0, s.size(-2))), used = p, g = grad.to(at::kFloat);
  auto dp = at::matmul(g, for_each_head(v, q).transpose(-2, -1));
  if (o.dropout > 0) {
    auto factor = kept(o, p.sizes());
    used = p * factor;
    dp = dp * factor;
  }
  auto ds = p * (dp - (g * done.out.to(at::kFloat)).sum(-1, true));
  auto dk = at::matmul(ds.transpose(-2, -1), q.to(at::kFloat)) * o.scale, dv = at::matmul(used.transpose(-2, -1), g);
  return {at::matmul(ds, for_each_head(k, q)) * o.scale, over_sharing_heads(dk, k), over_sharing_heads(dv, v), ds};
}

Tensor number(uint64_t value) { return at::scalar_tensor(int64_t(value), at::kLong); }
Philox state_of(const Tensor& seed, const Tensor& offset) {
  return {uint64_t(seed.item<int64_t>()), uint64_t(offset.item<int64_t>())};
}
int64_t missing_in(int64_t tile, int64_t size) { return (tile - size % tile) % tile; }

// Sequences one behind the other, as nested tensors have them: where each begins is `cumulative`, of queries or keys.
Tensor sequence(const Tensor& packed, const Tensor& cumulative, int64_t i) {  // [sum, heads, size] -> [1, heads, length, size]
  const int64_t first = cumulative[i].item<int64_t>(), last = cumulative[i + 1].item<int64_t>();
  return packed.slice(0, first, last).transpose(0, 1).unsqueeze(0);
}
Tensor packed(const Tensor& one) { return one.squeeze(0).transpose(0, 1); }
// Each sequence's draw is its own.
Options of_sequence(Options o, int64_t i) {
  o.state.offset += uint64_t(i) << 40;
  return o;
}
// Queries, keys and values are [sum of lengths, heads, size]; each part of the result is of one sequence.
std::vector<Attended> attend_packed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& of_q, const Tensor& of_k,
                                    const Options& o) {
  std::vector<Attended> parts;
  for (int64_t i = 0; i + 1 < of_q.numel(); i++)
    parts.push_back(attend(sequence(q, of_q, i), sequence(k, of_k, i), sequence(v, of_k, i), of_sequence(o, i)));
  return parts;
}
Tensor results_of(const std::vector<Attended>& parts) {
  std::vector<Tensor> results;
  for (const Attended& part : parts) results.push_back(packed(part.out));
  return at::cat(results);
}
// Of the longest sequences, filled up to whole tiles.
Tensor probabilities_of(const std::vector<Attended>& parts, int64_t max_q, int64_t max_k) {
  const int64_t rows = max_q + missing_in(128, max_q), columns = max_k + missing_in(128, max_k);
  auto all = at::zeros({int64_t(parts.size()), parts[0].probabilities.size(1), rows, columns});
  for (size_t i = 0; i < parts.size(); i++) {
    const auto p = parts[i].probabilities[0];
    all[i].slice(1, 0, p.size(1)).slice(2, 0, p.size(2)).copy_(p);
  }
  return all;
}
Gradients attend_packed_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& of_q,
                                 const Tensor& of_k, const Options& o) {
  std::vector<Tensor> dq, dk, dv;
  const auto parts = attend_packed(q, k, v, of_q, of_k, o);
  for (int64_t i = 0; i + 1 < of_q.numel(); i++) {
    auto part_q = sequence(q, of_q, i), part_k = sequence(k, of_k, i), part_v = sequence(v, of_k, i);
    auto g = attend_backward(sequence(grad, of_q, i), part_q, part_k, part_v, parts[i], of_sequence(o, i));
    dq.push_back(packed(g.q)), dk.push_back(packed(g.k)), dv.push_back(packed(g.v));
  }
  return {at::cat(dq), at::cat(dk), at::cat(dv), {}};
}
void only_packed(const Tensor& cumulative) {
  if (!cumulative.defined()) throw std::runtime_error("attention by this operator without packed sequences");
}

}  // namespace

void flash_attention_packed(Stack& stack) {  // q, k, v, cum_q, cum_k, max_q, max_k, dropout, causal, return_debug_mask, *, scale, ...
  Arguments a(stack);
  only_packed(a.tensor(3));
  Options o{{}, a.values[8].toBool(), scale_of(a.values[10], a.tensor(0)), a.values[7].toDouble()};
  if (o.dropout > 0) o.state = Seeded::state();
  const auto parts = attend_packed(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4), o);
  stack.emplace_back(results_of(parts)), stack.emplace_back();  // the sums are the device's own
  if (!(o.dropout > 0)) return;
  stack.emplace_back(number(o.state.seed)), stack.emplace_back(number(o.state.offset));
  if (a.values[9].toBool()) stack.emplace_back(probabilities_of(parts, a.values[5].toInt(), a.values[6].toInt()));
}
void flash_attention_packed_backward(Stack& stack) {
  // grad, q, k, v, out, logsumexp, cum_q, cum_k, max_q, max_k, dropout, causal, seed, offset, *, scale, ...
  Arguments a(stack);
  only_packed(a.tensor(6));
  Options o{{}, a.values[11].toBool(), scale_of(a.values[14], a.tensor(1)), a.values[10].toDouble()};
  if (o.dropout > 0) o.state = state_of(a.tensor(12), a.tensor(13));
  auto g = attend_packed_backward(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(6), a.tensor(7), o);
  for (const Tensor& t : {g.q, g.k, g.v}) stack.emplace_back(t);
}
// Its packed tensors are a batch of one, its mask is none (0) or causal (1, 2).
void efficient_attention_packed(Stack& stack) {
  // q, k, v, bias, cum_q, cum_k, max_q, max_k, dropout, mask, compute_log_sumexp, *, scale, ...
  Arguments a(stack);
  only_packed(a.tensor(4));
  Options o{{}, a.values[9].toInt() != 0, scale_of(a.values[11], a.tensor(0)), a.values[8].toDouble()};
  if (o.dropout > 0) o.state = Seeded::state();
  const auto parts = attend_packed(a.tensor(0)[0], a.tensor(1)[0], a.tensor(2)[0], a.tensor(4), a.tensor(5), o);
  stack.emplace_back(results_of(parts).unsqueeze(0)), stack.emplace_back();
  if (o.dropout > 0) stack.emplace_back(number(o.state.seed)), stack.emplace_back(number(o.state.offset));
}
void efficient_attention_packed_backward(Stack& stack) {
  // grad, q, k, v, bias, out, cum_q, cum_k, max_q, max_k, logsumexp, dropout, seed, offset, mask, bias's grad, *, scale, ...
  Arguments a(stack);
  only_packed(a.tensor(6));
  Options o{{}, a.values[14].toInt() != 0, scale_of(a.values[16], a.tensor(1)), a.values[11].toDouble()};
  if (o.dropout > 0) o.state = state_of(a.tensor(12), a.tensor(13));
  auto g = attend_packed_backward(a.tensor(0)[0], a.tensor(1)[0], a.tensor(2)[0], a.tensor(3)[0], a.tensor(6), a.tensor(7), o);
  for (const Tensor& t : {g.q, g.k, g.v}) stack.emplace_back(t.unsqueeze(0));
}
void flash_attention(Stack& stack) {  // q, k, v, dropout, causal, return_debug_mask, *, scale
  Arguments a(stack);
  Options o{{}, a.values[4].toBool(), scale_of(a.values[6], a.tensor(0)), a.values[3].toDouble()};
  if (o.dropout > 0) o.state = Seeded::state();
  auto done = attend(a.tensor(0), a.tensor(1), a.tensor(2), o);
  stack.emplace_back(done.out), stack.emplace_back(done.logsumexp);
  if (!(o.dropout > 0)) return;
  for (int i = 0; i < 4; i++) stack.emplace_back();  // cum_seq_q, cum_seq_k, max_q, max_k
  stack.emplace_back(number(o.state.seed)), stack.emplace_back(number(o.state.offset));
  if (!a.values[5].toBool()) return;
  const auto &p = done.probabilities;
  stack.emplace_back(at::constant_pad_nd(p, {0, missing_in(128, p.size(-1)), 0, missing_in(128, p.size(-2))}));
}
void flash_attention_backward(Stack& stack) {
  // grad, q, k, v, out, logsumexp, cum_q, cum_k, max_q, max_k, dropout, causal, seed, offset, *, scale
  Arguments a(stack);
  Options o{{}, a.values[11].toBool(), scale_of(a.values[14], a.tensor(1)), a.values[10].toDouble()};
  if (o.dropout > 0) o.state = state_of(a.tensor(12), a.tensor(13));
  auto g = attend_backward(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), {a.tensor(4), a.tensor(5), {}}, o);
  for (const Tensor& t : {g.q, g.k, g.v}) stack.emplace_back(t);
}
void efficient_attention(Stack& stack) {  // q, k, v, bias, compute_log_sumexp, dropout, causal, *, scale
  Arguments a(stack);
  Options o{a.maybe(3), a.values[6].toBool(), scale_of(a.values[7], a.tensor(0)), a.values[5].toDouble()};
  if (o.dropout > 0) o.state = Seeded::state();
  auto done = attend(a.tensor(0), a.tensor(1), a.tensor(2), o);
  const auto& sums = done.logsumexp;
  auto aligned = at::constant_pad_nd(sums, {0, missing_in(32, sums.size(-1))}, std::numeric_limits<double>::infinity());
  stack.emplace_back(done.out), stack.emplace_back(a.values[4].toBool() ? aligned : Tensor());
  if (o.dropout > 0) stack.emplace_back(number(o.state.seed)), stack.emplace_back(number(o.state.offset));
}
void efficient_attention_backward(Stack& stack) {
  // grad, q, k, v, bias, out, logsumexp, seed, offset, dropout, mask[4], causal, *, scale
  Arguments a(stack);
  Options o{a.maybe(4), a.values[11].toBool(), scale_of(a.values[12], a.tensor(1)), a.values[9].toDouble()};
  if (o.dropout > 0) o.state = state_of(a.tensor(7), a.tensor(8));
  auto g = attend_backward(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), {a.tensor(5), a.tensor(6), {}}, o);
  for (const Tensor& t : {g.q, g.k, g.v, g.bias}) stack.emplace_back(t);
}
void cudnn_attention(Stack& stack) {  // q, k, v, bias, compute_log_sumexp, dropout, causal, return_debug_mask, *, scale
  Arguments a(stack);
  Options o{a.maybe(3), a.values[6].toBool(), scale_of(a.values[8], a.tensor(0)), a.values[5].toDouble()};
  if (o.dropout > 0) o.state = Seeded::state();
  auto done = attend(a.tensor(0), a.tensor(1), a.tensor(2), o);
  stack.emplace_back(done.out), stack.emplace_back(a.values[4].toBool() ? done.logsumexp : Tensor());
  if (!(o.dropout > 0)) return;
  for (int i = 0; i < 4; i++) stack.emplace_back();  // cum_seq_q, cum_seq_k, max_q, max_k
  stack.emplace_back(number(o.state.seed)), stack.emplace_back(number(o.state.offset));
}
void cudnn_attention_backward(Stack& stack) {
  // grad, q, k, v, out, logsumexp, seed, offset, bias, cum_q, cum_k, max_q, max_k, dropout, causal, *, scale
  Arguments a(stack);
  Options o{a.maybe(8), a.values[14].toBool(), scale_of(a.values[15], a.tensor(1)), a.values[13].toDouble()};
  if (o.dropout > 0) o.state = state_of(a.tensor(6), a.tensor(7));
  auto g = attend_backward(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), {a.tensor(4), a.tensor(5), {}}, o);
  for (const Tensor& t : {g.q, g.k, g.v}) stack.emplace_back(t);
}
void fill_dropout_mask(Stack& stack) {  // self, dropout, seed, offset
  Arguments a(stack);
  Tensor self = a.tensor(0);
  self.copy_(drawn({uint64_t(a.values[2].toInt()), uint64_t(a.values[3].toInt())}, self.sizes()));
  stack.emplace_back(self);
}

}  // namespace shadow
