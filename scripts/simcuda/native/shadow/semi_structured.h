// Matrices with two of four elements left, as cuSPARSELt compresses them and multiplies by them. Its layout is its own secret:
// here the elements come first, then where in its four each of them lies.
#pragma once
#include <ATen/core/stack.h>

namespace shadow {

void cslt_compress(torch::jit::Stack&);
void cslt_sparse_mm(torch::jit::Stack&);

}  // namespace shadow
