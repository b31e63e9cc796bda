// Reductions of NCCL's types. Sums are taken in the order of ranks, so that every rank gets the same bits.
#pragma once
#include <nccl.h>

#include <cstddef>
#include <vector>

namespace simnccl {

size_t size_of(ncclDataType_t type);

struct Reduction {
  ncclRedOp_t op = ncclSum;
  double factor = 1;  // of a pre-multiplied sum
};

// out[i] = reduction over parts of parts[r][i]; `count` elements.
void reduce(const std::vector<const void*>& parts, size_t count, ncclDataType_t type, Reduction reduction, void* out);

}  // namespace simnccl
