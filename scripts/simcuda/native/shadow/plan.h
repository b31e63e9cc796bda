// What is to be done with an operator, decided once per operator.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace shadow {

enum class Way {
  pass,    // the real operator is right as it is, or is made of others that are looked at one by one
  value,   // the real operator, then the CPU's result in its place
  moves,   // copy_: passed where a plain copy of bytes is all it does
};

struct Plan {
  Way way = Way::pass;
  bool random = false;   // draws numbers: the CPU's generator is seeded from the device's state
  bool dynamic = false;  // the size of the result depends on values
  bool makes_sparse = false;  // so is how many elements its sparse result has
  bool steps = false;    // linear algebra: the host reads what the operator's own copies and fills left
  bool nested = false;   // a kernel of its own for nested tensors, which others are decided for part by part
  bool asserts = false;  // what the CPU's operator refuses is an assert of the device's kernel
};

const Plan& plan_of(const c10::OperatorHandle& op);

}  // namespace shadow
