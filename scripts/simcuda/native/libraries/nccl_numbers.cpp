#include "nccl_numbers.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simnccl {
namespace {

struct BFloat16 {
  uint16_t bits;
  operator float() const {
    uint32_t wide = uint32_t(bits) << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
  }
  BFloat16() = default;
  BFloat16(float f) {  // to the nearest, ties to even
    uint32_t wide;
    memcpy(&wide, &f, 4);
    bits = uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};

template <class T, class Wide>
void run(const std::vector<const void*>& parts, size_t count, Reduction r, void* out) {
  for (size_t i = 0; i < count; i++) {
    auto at = [&](size_t part) { return Wide(((const T*)parts[part])[i]); };
    auto scaled = [&](size_t part) { return r.factor == 1 ? at(part) : Wide(at(part) * Wide(r.factor)); };
    Wide total = scaled(0);
    for (size_t part = 1; part < parts.size(); part++) {
      Wide next = scaled(part);
      switch (r.op) {
        case ncclProd: total = Wide(total * next); break;
        case ncclMax: total = std::max(total, next); break;
        case ncclMin: total = std::min(total, next); break;
        default: total = Wide(total + next);
      }
    }
    if (r.op == ncclAvg) total = Wide(total / Wide(parts.size()));
    ((T*)out)[i] = T(total);
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: case ncclUint8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    default: return 8;
  }
}

void reduce(const std::vector<const void*>& parts, size_t count, ncclDataType_t type, Reduction r, void* out) {
  switch (type) {
    case ncclInt8: return run<int8_t, int8_t>(parts, count, r, out);
    case ncclUint8: return run<uint8_t, uint8_t>(parts, count, r, out);
    case ncclInt32: return run<int32_t, int32_t>(parts, count, r, out);
    case ncclUint32: return run<uint32_t, uint32_t>(parts, count, r, out);
    case ncclInt64: return run<int64_t, int64_t>(parts, count, r, out);
    case ncclUint64: return run<uint64_t, uint64_t>(parts, count, r, out);
    case ncclFloat16: return run<__half, float>(parts, count, r, out);
    case ncclBfloat16: return run<BFloat16, float>(parts, count, r, out);
    case ncclFloat32: return run<float, float>(parts, count, r, out);
    default: return run<double, double>(parts, count, r, out);
  }
}

}  // namespace simnccl
