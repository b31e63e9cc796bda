// cuDNN's graph interface: descriptors can be finalized, and there is one engine for everything.
#include <cudnn.h>

#include <cstdint>

#include "record.h"

namespace {
struct Descriptor {
  cudnnBackendDescriptorType_t type;
};
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) cudnnStatus_t
API cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  *out = (cudnnBackendDescriptor_t) new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete (Descriptor*)descriptor;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
API cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void*) {
  simlib::Call call("cudnnBackendSetAttribute");
  call << ((Descriptor*)descriptor)->type << name << type << count;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnBackendGetAttribute(cudnnBackendDescriptor_t const, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t type,
                             int64_t room, int64_t* count, void* out) {
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (count) *count = 1;
  } else if (type == CUDNN_TYPE_INT64) {
    if (count) *count = 1;
    if (out && room > 0) *(int64_t*)out = 0;
  } else if (count) {
    *count = 0;
  }
  return CUDNN_STATUS_SUCCESS;
}
API cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  simlib::Call call("cudnnBackendExecute");
  return CUDNN_STATUS_SUCCESS;
}
