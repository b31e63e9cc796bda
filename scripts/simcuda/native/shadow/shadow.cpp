// The values of a device that executes nothing. A fallback on a dispatch key above the device's sees every operator on CUDA
// tensors: the real one runs (what it would launch is recorded), then the CPU's operator computes on the same memory,
// as work of the same stream. While the stream captures, that work becomes a node of the graph and a replay runs it again.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <memory>

#include "decompositions.h"
#include "device_api.h"
#include "interface.h"
#include "mirror.h"
#include "nested.h"
#include "plan.h"
#include "random.h"
#include "report.h"
#include "widen.h"
#include "zero.h"

namespace shadow {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

constexpr auto kKey = c10::DispatchKey::Fake;  // above Python, Functionalize and autograd are done; nobody else uses it

const c10::DispatchKeySet kBeside = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::DispatchKeySet({kKey, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});  // not asked where values are put

// ---- what the arguments say ----
struct Seen {
  bool device = false, refused = false, sparse = false, nested = false;
  c10::Device where{c10::kCUDA, -1};
  std::optional<at::Generator> generator;
};
void see(const Tensor& t, Seen* seen) {
  if (!t.defined()) return;
  if (t.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) seen->refused = true;  // a subclass: its parts come by
  if (!t.is_cuda()) return;
  seen->device = true;
  seen->where = t.device();
  if (t.layout() != c10::kStrided) seen->sparse = true;
  if (t.is_nested()) seen->nested = true;
  if (!can_mirror(t)) seen->refused = true;
}
void see(const IValue& v, Seen* seen) {
  if (v.isTensor()) {
    see(v.toTensor(), seen);
  } else if (v.isTensorList()) {
    for (const Tensor& t : v.toTensorVector()) see(t, seen);
  } else if (v.isDevice() && v.toDevice().is_cuda()) {
    seen->device = true;
    seen->where = v.toDevice();
  } else if (v.isGenerator()) {
    seen->generator = v.toGenerator();
  } else if (v.isList()) {
    for (const IValue& x : v.toListRef()) see(x, seen);
  }
}

IValue mirrored(const IValue& v) {
  if (v.isTensor()) return mirror(v.toTensor());
  if (v.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : v.toTensorVector()) list.push_back(mirror(t));
    return list;
  }
  if (v.isDevice() && v.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  if (v.isGenerator() && v.toGenerator().device().is_cuda()) return IValue();  // the seeded default generator takes its place
  if (v.isList()) {
    auto list = v.toList();
    auto out = c10::impl::GenericList(list.elementType());
    for (size_t i = 0; i < list.size(); i++) out.push_back(mirrored(list.get(i)));
    return out;
  }
  return v;
}

bool writes(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }

// ---- one computation of the CPU ----
struct Silent : c10::WarningHandler {  // the real operator has warned
  void process(const c10::Warning&) override {}
};

// MKL refuses what is expanded, a gradient of sum() for example; cuFFT gets a copy of that, too.
void dense(Stack* stack) {
  Tensor from = stack->front().toTensor();
  bool expanded = false;
  for (int64_t i = 0; i < from.dim(); i++) expanded |= from.size(i) > 1 && from.stride(i) == 0;
  if (expanded) stack->front() = from.contiguous();
}

// The CPU's part is no step of the program: a profiler sees the CUDA operator only.
struct Unseen {
  std::optional<at::DisableRecordFunctionGuard> guard;
  Unseen() {
    if (at::hasCallbacks()) guard.emplace();
  }
};

struct Work {
  c10::OperatorHandle op;
  Stack arguments;                   // on the device's memory
  std::function<Philox()> seed;      // of a random operator
  Stack into;                        // mirrors of the results, one for each, for a replay

  Stack compute() const {
    // below autograd, without Python modes, and without shadows of its own
    c10::impl::ExcludeDispatchKeyGuard plain(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
        c10::DispatchKeySet({kKey, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::PreDispatch}));
    Unseen unseen;
    Silent silent;
    c10::WarningUtils::WarningHandlerGuard said_already(&silent);
    std::unique_ptr<Seeded> seeded;
    if (seed) seeded = std::make_unique<Seeded>(seed());
    auto run = [this](Stack* stack) {
      if (auto decomposed = decomposition(op.schema().name())) {
        decomposed(*stack);
        stack->resize(op.schema().returns().size());  // results that it does not give are the device's own
      } else {
        op.callBoxed(stack);
      }
    };
    Stack stack = arguments;
    const std::string& name = op.schema().name();
    if (name.rfind("aten::_fft_", 0) == 0) dense(&stack);
    if (nested_with_plain(name, &stack)) return stack;
    if ((adds_up(name) || is_sum(name, stack)) && widened(op, &stack, run)) return stack;
    try {
      run(&stack);
    } catch (const c10::Error& error) {
      stack = arguments;
      if (is_for_zero(error))
        divided(&stack, run);
      else if (!is_for_type(error) || !widened(op, &stack, run, is_for_bools(error)))
        throw;
    }
    return stack;
  }
};

// What the CPU's operator refused, for which no value stands in its place.
void report_refusal(const std::string& name, const std::exception& error, bool asserts) {
  report::refused(name, error.what());
  const bool index = dynamic_cast<const c10::IndexError*>(&error);  // the kernel would have met the same
  if (index || asserts) simcuda_device_assert();
}

struct Node {  // work that a graph runs at each replay
  Work work;
  std::string name;
  bool asserts;  // of its plan
};
std::vector<Tensor> tensors_of(const IValue& v) {
  if (v.isTensor()) return {v.toTensor()};
  return v.isTensorList() ? v.toTensorVector() : std::vector<Tensor>();
}
void replay(void* p) {
  auto* node = (Node*)p;
  try {
    const Stack results = node->work.compute();
    const Stack& into = node->work.into;
    for (size_t i = 0; i < results.size() && i < into.size(); i++) {
      const auto from = tensors_of(results[i]), to = tensors_of(into[i]);
      for (size_t k = 0; k < from.size() && k < to.size(); k++)
        if (to[k].defined() && from[k].defined() && same_shape(to[k], from[k]) && to[k].data_ptr() != from[k].data_ptr())
          to[k].copy_(from[k]);
    }
  } catch (const std::exception& error) {
    report_refusal(node->name, error, node->asserts);
  }
}

// ---- results ----
Tensor placed(const Tensor& real, const Tensor& value, c10::Device where) {
  if (!value.defined()) return real;
  if (!real.defined()) return real;
  if (!real.is_cuda()) {  // the real operator answers on the host, from memory that no kernel wrote
    if (real.is_cpu() && same_shape(real, value) && real.scalar_type() == value.scalar_type()) Tensor(real).copy_(value);
    return real;
  }
  bool same = real.layout() == c10::kStrided && value.layout() == c10::kStrided && same_shape(real, value);
  if (same || real.layout() != c10::kStrided) {
    put(real, value);
    return real;
  }
  return to_device(value.scalar_type() == real.scalar_type() ? value : value.to(real.scalar_type()), where);
}

IValue placed(const IValue& real, const IValue& value, c10::Device where) {
  if (real.isTensor() && value.isTensor()) return placed(real.toTensor(), value.toTensor(), where);
  if (real.isTensorList() && value.isTensorList()) {
    auto a = real.toTensorVector(), b = value.toTensorVector();
    c10::List<Tensor> list;
    for (size_t i = 0; i < a.size(); i++) list.push_back(i < b.size() ? placed(a[i], b[i], where) : a[i]);
    return list;
  }
  if (value.isScalar() || value.isBool() || value.isInt() || value.isDouble()) return value;
  return real;
}
// Where the real operator failed on what no kernel had counted, all of the result is the CPU's.
IValue transferred(const IValue& value, c10::Device where) {
  if (value.isTensor() && value.toTensor().defined()) return to_device(value.toTensor(), where);
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector()) list.push_back(to_device(t, where));
    return list;
  }
  return value;
}

struct NoEffects {
  NoEffects() { simcuda_effects(0); }
  ~NoEffects() { simcuda_effects(1); }
};
struct ExpectCount {
  explicit ExpectCount(int64_t n) { simcuda_expect_count(1, n); }
  ~ExpectCount() { simcuda_expect_count(0, 0); }
};

// How often the device was asked for something: launches, copies and fills.
unsigned long long asked() {
  unsigned long long totals[10];
  simcuda_ledger_totals(totals);
  return totals[3] + totals[4] + totals[5];
}

bool waiting_is_an_error() {
  return device_api::warning_state().get_sync_debug_mode() == device_api::SyncDebugMode::L_ERROR;
}

bool plain_copy(const Stack& stack, size_t first) {
  const Tensor &to = stack[first].toTensor(), &from = stack[first + 1].toTensor();
  if (to.is_nested() || from.is_nested()) return false;
  return to.layout() == c10::kStrided && from.layout() == c10::kStrided && to.scalar_type() == from.scalar_type() &&
         to.sizes() == from.sizes() && to.strides() == from.strides() && to.is_non_overlapping_and_dense() &&
         to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

// Size of the first dimension of the first result: what nonzero, unique and their like count. Of a sparse one its elements.
int64_t count_of(const Stack& results) {
  for (const IValue& v : results)
    if (v.isTensor() && v.toTensor().defined()) {
      const Tensor& t = v.toTensor();
      return t.layout() != c10::kStrided ? t._nnz() : t.dim() ? t.size(0) : t.numel();
    }
  return 0;
}

// Is a sparse tensor changed by itself, or the place of a result and an operand too? Not if it is a place alone.
bool changes_sparse(const c10::FunctionSchema& schema, const Stack& given) {
  if (!schema.is_mutable()) return false;
  for (size_t i = 0; i < given.size(); i++) {
    if (!writes(schema.arguments()[i]) || !given[i].isTensor()) continue;
    const Tensor& to = given[i].toTensor();
    if (!to.defined() || !to.is_cuda() || to.layout() == c10::kStrided) continue;
    if (schema.name().back() == '_') return true;
    for (size_t k = 0; k < given.size(); k++)
      if (k != i && given[k].isTensor() && given[k].toTensor().is_same(to)) return true;
  }
  return false;
}

// Copies of the sparse tensors that are written to, each at its argument's place. A copy, because it gets other parts, and of
// what was there before: the real operator leaves parts that do not fit together, which a program may have asked to check.
Stack sparse_places(const c10::FunctionSchema& schema, const Stack& given) {
  Stack places(given.size());
  c10::impl::ExcludeDispatchKeyGuard plain(kBeside);
  Unseen unseen;
  for (size_t i = 0; i < given.size(); i++) {
    if (!writes(schema.arguments()[i]) || !given[i].isTensor()) continue;
    const Tensor& to = given[i].toTensor();
    if (to.defined() && to.layout() != c10::kStrided && can_mirror(to)) places[i] = mirror(to).clone();
  }
  return places;
}

// How many elements the masks among the indices choose: the real operator asks its own nonzero(), whose kernel counts nothing.
std::optional<int64_t> chosen(const Stack& given) {
  for (const IValue& v : given) {
    if (!v.isList() || v.isTensorList()) continue;
    for (const IValue& x : v.toListRef())
      if (x.isTensor() && x.toTensor().defined() && x.toTensor().is_cuda() && can_mirror(x.toTensor()) &&
          (x.toTensor().scalar_type() == at::kBool || x.toTensor().scalar_type() == at::kByte)) {
        c10::impl::ExcludeDispatchKeyGuard plain(kBeside);
        return mirror(x.toTensor()).count_nonzero().item<int64_t>();
      }
  }
  return std::nullopt;
}

// Whether no deviation is negative: what the real normal() asks its own min().
std::optional<int64_t> not_negative(const std::string& name, const Stack& given) {
  if (name != "aten::normal" || !given[1].isTensor()) return std::nullopt;
  const Tensor& deviation = given[1].toTensor();
  if (!deviation.is_cuda() || !can_mirror(deviation) || !deviation.numel()) return std::nullopt;
  c10::impl::ExcludeDispatchKeyGuard plain(kBeside);
  return mirror(deviation).min().ge(0).item<bool>();
}

// Who has the __torch_dispatch__ that the operator is for: the innermost mode's interpreter, or a subclass's.
c10::impl::PyInterpreter* interpreter(const c10::OperatorHandle& op, const Stack& stack) {
  using Modes = c10::impl::TorchDispatchModeTLS;
  if (auto depth = Modes::stack_len()) return &Modes::get_stack_at(depth - 1)->pyinterpreter();
  c10::impl::PyInterpreter* found = nullptr;
  auto ask = [&found](const Tensor& t) {
    if (!found && t.defined() && t.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python))
      found = t.unsafeGetTensorImpl()->pyobj_slot()->pyobj_interpreter();
  };
  for (const IValue& v : torch::jit::last(stack, op.schema().arguments().size())) {
    if (v.isTensor()) ask(v.toTensor());
    if (v.isList())
      for (const IValue& x : v.toListRef())
        if (x.isTensor()) ask(x.toTensor());
  }
  return found;
}

// The dispatcher calls a __torch_dispatch__ with every key above Python's switched off, this one too, and what that then asks
// of plain tensors would have no values. So it is called from here, and this key stays.
bool handed_to_python(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  constexpr auto kPython = c10::DispatchKey::Python;
  if (!keys.has(kPython) || op.hasKernelForDispatchKey(kPython)) return false;
  auto* python = interpreter(op, *stack);
  if (!python) return false;
  static const auto from_python = c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kPython).add(kPython);
  c10::impl::ExcludeDispatchKeyGuard above((c10::DispatchKeySet(c10::DispatchKeySet::FULL) - from_python).remove(kKey));
  (*python)->dispatch(op, stack);
  return true;
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (handed_to_python(op, keys, stack)) return;
  const auto below = c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey) & keys;
  const Plan& plan = plan_of(op);
  if (plan.way == Way::pass) return op.redispatchBoxed(below, stack);
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  Seen seen;
  for (size_t i = first; i < stack->size(); i++) see((*stack)[i], &seen);
  const bool refused = seen.refused || (seen.nested && !plan.nested) || keys.has(c10::DispatchKey::Python);
  if (!seen.device || refused) return op.redispatchBoxed(below, stack);
  if (plan.way == Way::moves && plain_copy(*stack, first)) return op.redispatchBoxed(below, stack);
  if (seen.where.index() < 0) seen.where = c10::Device(c10::kCUDA, device_api::current_device());

  const Stack given(stack->begin() + first, stack->end());
  void* stream = current_stream(seen.where.index());
  const bool capturing = simcuda_is_capturing(stream);
  Work work{op, {}, {}, {}};
  if (plan.random || seen.generator) work.seed = state_of(seen.where, seen.generator, capturing);

  // a result whose size depends on values is computed first, so that the real operator can be told the size
  std::optional<Stack> early;
  // (of sparse tensors that is the number of their elements, which the real operator may change in place)
  const bool in_place = changes_sparse(schema, given);
  if (!capturing && (plan.dynamic || in_place || ((seen.sparse || plan.makes_sparse) && !schema.is_mutable()))) {
    Unseen unseen;
    try {
      for (size_t i = 0; i < count; i++) {
        IValue v = mirrored(given[i]);
        if (writes(schema.arguments()[i]) && v.isTensor())
          v = in_place ? v.toTensor().clone() : at::empty({0}, v.toTensor().options());
        work.arguments.push_back(std::move(v));
      }
      early = work.compute();
    } catch (const std::exception& error) {
      report::refused(schema.name(), error.what());
    }
  }

  Stack places;
  if (seen.sparse && !early) places = sparse_places(schema, given);

  std::optional<int64_t> asked_for;
  if (!capturing) asked_for = chosen(given);
  if (!capturing && !asked_for) asked_for = not_negative(schema.name(), given);
  std::exception_ptr failed;
  const auto before = early ? asked() : 0;
  try {
    std::optional<c10::impl::ExcludeDispatchKeyGuard> once;
    std::optional<NoEffects> no_effects;
    if (!plan.steps || capturing) once.emplace(kKey), no_effects.emplace();
    std::optional<ExpectCount> expect;
    if (asked_for)
      expect.emplace(*asked_for);
    else if (early)
      expect.emplace(count_of(*early));
    simcuda_paint();
    op.redispatchBoxed(below, stack);
  } catch (...) {
    // the real operator's own error, which nothing of the device's led to; or a program that wants no waiting
    if (!early || asked() == before || waiting_is_an_error()) throw;
    failed = std::current_exception();
    const std::string& name = schema.name();
    simcuda_library_call(name.c_str(), "\"failed\"", "\"failed\"");  // another build may not have
    stack->resize(first);
  }

  const size_t results = schema.returns().size();
  c10::impl::ExcludeDispatchKeyGuard plain(kBeside);
  Unseen unseen;
  try {
    if (!early) {
      work.arguments.clear();
      for (size_t i = 0; i < count; i++)
        work.arguments.push_back(places.empty() || places[i].isNone() ? mirrored(given[i]) : std::move(places[i]));
    }
    if (capturing) {
      for (size_t i = stack->size() - results; i < stack->size(); i++) work.into.push_back(mirrored((*stack)[i]));
      auto* node = new Node{std::move(work), schema.name(), plan.asserts};
      simcuda_enqueue(stream, replay, [](void* p) { delete (Node*)p; }, node, node->name.c_str());
      report::shadowed(schema.name());
      return;
    }
    Stack values = early ? std::move(*early) : work.compute();
    for (size_t i = 0; i < results; i++) {
      const IValue& value = values[values.size() - results + i];
      const auto* alias = schema.returns()[i].alias_info();
      if (alias && alias->isWrite()) {
        size_t k = 0;
        for (; k < count; k++)
          if (writes(schema.arguments()[k]) && schema.arguments()[k].alias_info()->beforeSets() == alias->beforeSets()) break;
        if (k < count && value.isTensor() && given[k].isTensor()) {  // nonzero.out and its like, and any sparse place
          Tensor to = given[k].toTensor();
          const bool sparse = to.is_cuda() && to.layout() != c10::kStrided;
          if (early && !sparse && !same_shape(to, value.toTensor())) to.resize_(value.toTensor().sizes());
          if (early || sparse) put(to, value.toTensor());
        }
        if (failed) stack->push_back(given[k < count ? k : 0]);
        continue;
      }
      if (failed)
        stack->push_back(transferred(value, seen.where));
      else
        (*stack)[stack->size() - results + i] = placed((*stack)[stack->size() - results + i], value, seen.where);
    }
    report::shadowed(schema.name());
  } catch (const std::exception& error) {
    if (failed) std::rethrow_exception(failed);
    report_refusal(schema.name(), error, plan.asserts);
  }
}

void include_key() { c10::impl::tls_set_dispatch_key_included(kKey, true); }

struct AtLoad {
  AtLoad() {
    simcuda_at_thread_start(include_key);
    include_key();
  }
} at_load;

}  // namespace
}  // namespace shadow

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&shadow::fallback>()); }
TORCH_LIBRARY(simcuda, m) {
  m.def("report() -> str", [] { return shadow::report::text(); });
  m.def("on(bool value) -> ()", [](bool value) { c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, value); });
}
