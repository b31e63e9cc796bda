// cuSPARSELt: what it refuses. Its products of 8-bit numbers want both matrices contiguous along the dimension that is summed
// over, as NVIDIA documents it; a descriptor remembers what tells.
#include <cusparseLt.h>

#include <cstdint>
#include <cstring>

#include "record.h"

namespace {

struct Matrix {
  cudaDataType type;
  cusparseOrder_t order;
};
static_assert(sizeof(Matrix) <= sizeof(cusparseLtMatDescriptor_t), "a descriptor has no room for what is remembered");

void remember(cusparseLtMatDescriptor_t* to, cudaDataType type, cusparseOrder_t order) {
  const Matrix matrix{type, order};
  memcpy(to, &matrix, sizeof matrix);
}
Matrix remembered(const cusparseLtMatDescriptor_t* from) {
  Matrix matrix;
  memcpy(&matrix, from, sizeof matrix);
  return matrix;
}
// Do rows of the matrix lie in one piece, once the operation was done?
bool rows_in_one_piece(const Matrix& matrix, cusparseOperation_t operation) {
  return (matrix.order == CUSPARSE_ORDER_ROW) == (operation == CUSPARSE_OPERATION_NON_TRANSPOSE);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))
API cusparseStatus_t cusparseLtDenseDescriptorInit(const cusparseLtHandle_t* handle, cusparseLtMatDescriptor_t* out,
                                                   int64_t rows, int64_t columns, int64_t leading, uint32_t alignment,
                                                   cudaDataType type, cusparseOrder_t order) {
  simlib::Call call("cusparseLtDenseDescriptorInit");
  call << handle << out << rows << columns << leading << alignment << type << order;
  remember(out, type, order);
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseLtStructuredDescriptorInit(const cusparseLtHandle_t* handle, cusparseLtMatDescriptor_t* out,
                                                        int64_t rows, int64_t columns, int64_t leading, uint32_t alignment,
                                                        cudaDataType type, cusparseOrder_t order,
                                                        cusparseLtSparsity_t sparsity) {
  simlib::Call call("cusparseLtStructuredDescriptorInit");
  call << handle << out << rows << columns << leading << alignment << type << order << sparsity;
  remember(out, type, order);
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseLtMatmulDescriptorInit(const cusparseLtHandle_t* handle, cusparseLtMatmulDescriptor_t* out,
                                                    cusparseOperation_t first, cusparseOperation_t second,
                                                    const cusparseLtMatDescriptor_t* a, const cusparseLtMatDescriptor_t* b,
                                                    const cusparseLtMatDescriptor_t* c, const cusparseLtMatDescriptor_t* d,
                                                    cusparseComputeType type) {
  simlib::Call call("cusparseLtMatmulDescriptorInit");
  call << handle << out << first << second << a << b << c << d << type;
  const Matrix left = remembered(a), right = remembered(b);
  if (left.type == CUDA_R_8I && (!rows_in_one_piece(left, first) || rows_in_one_piece(right, second)))
    return CUSPARSE_STATUS_NOT_SUPPORTED;
  return CUSPARSE_STATUS_SUCCESS;
}
