// The operands of an elementwise kernel as plain values, as a launch takes them: no class of PyTorch's is in them.
#pragma once

#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

// A compiler for a device has a word for functions that run there, too.
#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__MUSACC__)
#define TD_ANYWHERE __host__ __device__
#elif !defined(TD_ANYWHERE)
#define TD_ANYWHERE
#endif

namespace third_device {

// `N` operands, the output first: where each begins, and how an element's place in it follows from its number.
template <size_t N>
struct Operands {
  static constexpr int kMaxRank = 64;
  char* data[N];
  int64_t count;
  int rank;
  int64_t shape[kMaxRank];       // the fastest dimension first
  int64_t strides[kMaxRank][N];  // bytes

  struct Places {
    int64_t bytes[N];  // from the beginning of each operand
  };

  TD_ANYWHERE Places places(int64_t element) const {
    Places made{};
    for (int d = 0; d < rank; ++d) {
      const int64_t rest = d + 1 < rank ? element / shape[d] : 0;
      const int64_t at = element - rest * shape[d] * (d + 1 < rank ? 1 : 0);
      for (size_t i = 0; i < N; ++i) made.bytes[i] += at * strides[d][i];
      element = rest;
    }
    return made;
  }
};

// Of an iterator that ATen gives to a stub: shapes are broadcast and types promoted, neighbouring dimensions are one.
template <size_t N>
Operands<N> operands_of(const at::TensorIteratorBase& iterator) {
  TORCH_CHECK(static_cast<size_t>(iterator.ntensors()) == N, "a kernel for ", N, " operands was given ", iterator.ntensors());
  Operands<N> made{};
  made.count = iterator.numel();
  made.rank = iterator.ndim();
  TORCH_CHECK(made.rank <= Operands<N>::kMaxRank, "a tensor has at most ", Operands<N>::kMaxRank, " dimensions");
  std::copy(iterator.shape().begin(), iterator.shape().end(), made.shape);
  for (size_t i = 0; i < N; ++i) {
    TORCH_CHECK(!iterator.is_cpu_scalar(static_cast<int64_t>(i)), "operand ", i, " of a kernel is a number on the CPU, whose ",
                "address the device does not know; next: its scalar_value() and remove_operand() of the iterator");
    made.data[i] = static_cast<char*>(iterator.data_ptr(static_cast<int>(i)));
    for (int d = 0; d < made.rank; ++d) made.strides[d][i] = iterator.strides(static_cast<int>(i))[static_cast<size_t>(d)];
  }
  return made;
}

}  // namespace third_device
