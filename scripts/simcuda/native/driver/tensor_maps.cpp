// Descriptors of tensors for Hopper's copies (TMA), which CUTLASS makes on the host and gives to kernels by value. What is asked
// for is checked as NVIDIA's driver API documents it. Their contents are NVIDIA's secret: here they are the request itself,
// the address first, so that the ledger finds it.
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "../interface.h"

#if CUDA_VERSION >= 12000

#define DRIVER_API extern "C" __attribute__((visibility("default"))) CUresult

namespace {

struct Request {
  uint64_t address;
  uint64_t strides[4];  // bytes
  uint32_t last[5];     // the last index of each dimension, for a size may be 2**32
  uint8_t box[5][2];
  uint8_t steps[5];
  uint8_t type, rank, interleave, swizzle, promotion, fill;
  int16_t corners[3][2];
  uint16_t channels, pixels;
};
static_assert(sizeof(Request) <= sizeof(CUtensorMap), "a tensor map has no room for the request");

unsigned bytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16: case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: case CU_TENSOR_MAP_DATA_TYPE_INT64: case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 4;
  }
}
bool whole(CUtensorMapDataType type) { return type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16; }

// The address, sizes, strides and steps, which both kinds of descriptor have.
bool encode(Request* to, CUtensorMapDataType type, unsigned rank, const void* address, const cuuint64_t* sizes,
            const cuuint64_t* strides, const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
            CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const unsigned grain = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  if (!rank || rank > 5 || (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && rank < 3)) return false;
  if (!address || uint64_t(address) % grain || !sizes || (rank > 1 && !strides) || !steps) return false;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B) return false;
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && whole(type)) return false;
  to->address = uint64_t(address);
  for (unsigned i = 0; i < rank; i++) {
    if (!sizes[i] || sizes[i] > uint64_t(1) << 32) return false;
    if ((i || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) && (!steps[i] || steps[i] > 8)) return false;
    if (i && (strides[i - 1] % grain || strides[i - 1] >> 40)) return false;
    to->last[i] = uint32_t(sizes[i] - 1);
    to->steps[i] = uint8_t(steps[i]);
    if (i) to->strides[i - 1] = strides[i - 1];
  }
  to->type = uint8_t(type), to->rank = uint8_t(rank), to->interleave = uint8_t(interleave);
  to->swizzle = uint8_t(swizzle), to->promotion = uint8_t(promotion), to->fill = uint8_t(fill);
  return true;
}
bool fits(unsigned inner, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle) {
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || swizzle == CU_TENSOR_MAP_SWIZZLE_NONE) return true;
  return inner <= 16u << swizzle;  // 32, 64 or 128 bytes
}
CUresult written(CUtensorMap* map, const Request& request) {
  memset(map, 0, sizeof *map);
  memcpy(map, &request, sizeof request);
  return CUDA_SUCCESS;
}
bool aligned(const CUtensorMap* map) { return map && uint64_t(map) % 64 == 0; }

}  // namespace

DRIVER_API cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                  const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                  const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Request request{};
  if (!aligned(map) || !box ||
      !encode(&request, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < rank; i++) {
    if (!box[i] || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
    request.box[i][0] = uint8_t(box[i]), request.box[i][1] = uint8_t(box[i] >> 8);
  }
  const unsigned inner = box[0] * bytes(type);
  if ((interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && inner % 16) || !fits(inner, interleave, swizzle))
    return CUDA_ERROR_INVALID_VALUE;
  return written(map, request);
}
DRIVER_API cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                   const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower, const int* upper,
                                   cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                   CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  Request request{};
  if (!aligned(map) || !lower || !upper || rank < 3 || channels > 256 || pixels > 1024 ||
      !encode(&request, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill) ||
      !fits(channels * bytes(type), interleave, swizzle))
    return CUDA_ERROR_INVALID_VALUE;
  const int most = rank == 3 ? 32767 : rank == 4 ? 127 : 15;
  for (unsigned i = 0; i < rank - 2; i++) {
    for (int corner : {lower[i], upper[i]})
      if (corner < -most - 1 || corner > most) return CUDA_ERROR_INVALID_VALUE;
    request.corners[i][0] = int16_t(lower[i]), request.corners[i][1] = int16_t(upper[i]);
  }
  request.channels = uint16_t(channels), request.pixels = uint16_t(pixels);
  return written(map, request);
}
DRIVER_API cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (!aligned(map) || !address) return CUDA_ERROR_INVALID_VALUE;
  Request request;
  memcpy(&request, map, sizeof request);
  if (uint64_t(address) % (request.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16)) return CUDA_ERROR_INVALID_VALUE;
  request.address = uint64_t(address);
  return written(map, request);
}

#endif  // CUDA_VERSION
