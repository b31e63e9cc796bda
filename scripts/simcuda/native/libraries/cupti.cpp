// CUPTI: the records of calls, kernels, copies, fills and waits that the simulated runtime tells of, handed out in buffers of the
// subscriber's. No counters, no metrics, no driver calls; no callback is ever called.
#include <cupti.h>

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../interface.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

#if SIMCUDA_CUDA_VERSION >= 12000
using KernelRecord = CUpti_ActivityKernel9;
#else
using KernelRecord = CUpti_ActivityKernel8;
#endif

uint64_t clock_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// ---- time: the subscriber's, if it has given one, whose unit is its own ----
struct Clock {
  CUpti_TimestampCallbackFunc given = nullptr;
  double rate = 1;  // its units in a nanosecond

  uint64_t now() const { return given ? given() : clock_of(CLOCK_REALTIME); }
  int64_t span(int64_t nanoseconds) const { return int64_t(double(nanoseconds) * rate); }
  // The moment that CLOCK_MONOTONIC gives as `when`. Of two moments of one record the second is a span after the first:
  // each call is off by another time.
  uint64_t at(uint64_t when) const {
    const Both both = read_both();
    return both.ours + span(int64_t(when - both.monotonic));
  }
  void take(CUpti_TimestampCallbackFunc function) {
    given = function;
    rate = 1;
    if (!given) return;
    const Both first = read_both();
    const timespec pause{0, 5000000};
    nanosleep(&pause, nullptr);
    const Both last = read_both();
    rate = double(last.ours - first.ours) / double(last.monotonic - first.monotonic);
  }

 private:
  struct Both {
    uint64_t ours, monotonic;
  };
  // Both clocks at one moment. On a busy machine the thread may be stopped between them: then they are read again.
  Both read_both() const {
    Both best{};
    uint64_t least = UINT64_MAX;
    for (int attempt = 0; attempt < 5 && least > 10000; ++attempt) {
      const uint64_t before = clock_of(CLOCK_MONOTONIC), ours = now(), took = clock_of(CLOCK_MONOTONIC) - before;
      if (took < least) least = took, best = {ours, before + took / 2};
    }
    return best;
  }
};
Clock clock_in_use;

// ---- buffers ----
struct Buffers {
  std::mutex lock;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  uint8_t* open = nullptr;
  size_t room = 0, used = 0;
  std::unordered_set<std::string> names;  // what records point to stays
  std::atomic<bool> enabled[CUPTI_ACTIVITY_KIND_COUNT] = {};

  bool wants(CUpti_ActivityKind kind) const { return enabled[kind]; }
  void flush() {
    if (open && complete) complete(nullptr, 0, open, room, used);
    open = nullptr;
    room = used = 0;
  }
  template <class Record>
  void add(const Record& record) {
    if (open && room - used < sizeof record) flush();
    if (!open) {
      size_t most = 0;
      if (request) request(&open, &room, &most);
      if (!open) return;
    }
    memcpy(open + used, &record, sizeof record);
    used += sizeof record;
  }
};
Buffers& buffers() {
  static auto* all = new Buffers;
  return *all;
}

size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    default: return 0;
  }
}

// ---- correlation with what the subscriber was doing, by thread and kind ----
thread_local std::vector<uint64_t>* outer[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
thread_local unsigned correlated = 0;  // the last call whose records of this kind are out

// Before the first record of a call.
void correlate(unsigned call) {
  if (correlated == call || !buffers().wants(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  correlated = call;
  for (int kind = 0; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; kind++) {
    if (!outer[kind] || outer[kind]->empty()) continue;
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = CUpti_ExternalCorrelationKind(kind);
    record.externalId = outer[kind]->back();
    record.correlationId = call;
    buffers().add(record);
  }
}

// ---- what the runtime tells ----
const std::unordered_map<std::string, CUpti_CallbackId>& numbers() {
#define NUMBER(name, version) {#name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version}
  static const auto* all = new std::unordered_map<std::string, CUpti_CallbackId>{
      NUMBER(cudaDeviceSynchronize, v3020),
      NUMBER(cudaEventQuery, v3020),
      NUMBER(cudaEventRecord, v3020),
      NUMBER(cudaEventRecordWithFlags, v11010),
      NUMBER(cudaEventSynchronize, v3020),
      NUMBER(cudaFree, v3020),
      NUMBER(cudaFreeHost, v3020),
      NUMBER(cudaGraphLaunch, v10000),
      NUMBER(cudaHostAlloc, v3020),
      NUMBER(cudaLaunchCooperativeKernel, v9000),
      NUMBER(cudaLaunchKernel, v7000),
      NUMBER(cudaLaunchKernelExC, v11060),
      NUMBER(cudaMalloc, v3020),
      NUMBER(cudaMemcpy, v3020),
      NUMBER(cudaMemcpy2D, v3020),
      NUMBER(cudaMemcpy2DAsync, v3020),
      NUMBER(cudaMemcpyAsync, v3020),
      NUMBER(cudaMemcpyPeer, v4000),
      NUMBER(cudaMemcpyPeerAsync, v4000),
      NUMBER(cudaMemset, v3020),
      NUMBER(cudaMemsetAsync, v3020),
      NUMBER(cudaMemset2D, v3020),
      NUMBER(cudaMemset2DAsync, v3020),
      NUMBER(cudaStreamIsCapturing, v10000),
      NUMBER(cudaStreamSynchronize, v3020),
      NUMBER(cudaStreamWaitEvent, v3020),
  };
#undef NUMBER
  return *all;
}

uint8_t memory_kind(char side) {
  return side == 'D'   ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
         : side == 'P' ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
                       : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
}
uint8_t copy_kind(char from, char to) {
  if (from == 'D') return to == 'D' ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  return to == 'D' ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD : CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

unsigned long long time_now() { return clock_in_use.now(); }

void on_call(const char* function, unsigned call, unsigned long long begin, unsigned long long end) {
  const auto known = numbers().find(function);
  if (known == numbers().end() || !buffers().wants(CUPTI_ACTIVITY_KIND_RUNTIME)) return;
  std::lock_guard<std::mutex> lock(buffers().lock);
  correlate(call);
  CUpti_ActivityAPI record{};
  record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  record.cbid = known->second;
  record.start = begin, record.end = end;
  record.processId = uint32_t(getpid());
  record.threadId = uint32_t(pthread_self());  // its lower half, as CUPTI has it
  record.correlationId = call;
  buffers().add(record);
}

template <class Record>
void fill_in(Record& record, CUpti_ActivityKind kind, const simcuda_work& work) {
  record.kind = kind;
  record.start = clock_in_use.at(work.begin);
  record.end = record.start + clock_in_use.span(int64_t(work.end - work.begin));
  record.contextId = uint32_t(work.device) + 1;
  record.streamId = work.stream, record.correlationId = work.correlation;
}
template <class Record>
void add_work(Record record, CUpti_ActivityKind kind, const simcuda_work& work) {
  fill_in(record, kind, work);
  if constexpr (std::is_same_v<Record, KernelRecord>) record.completed = record.end;
  record.deviceId = uint32_t(work.device);
  buffers().add(record);
}
void add_wait(const simcuda_work& work) {
  CUpti_ActivitySynchronization record{};
  fill_in(record, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, work);
  record.type = work.to == 'S' ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE
                               : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  if (work.to != 'S') record.streamId = uint32_t(CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  record.cudaEventId = uint32_t(CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  buffers().add(record);
}

void on_work(const simcuda_work* work) {
  const CUpti_ActivityKind kind = work->kind == 'K'   ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                                  : work->kind == 'C' ? CUPTI_ACTIVITY_KIND_MEMCPY
                                  : work->kind == 'W' ? CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
                                                      : CUPTI_ACTIVITY_KIND_MEMSET;
  if (!buffers().wants(kind)) return;
  std::lock_guard<std::mutex> lock(buffers().lock);
  correlate(work->correlation);
  if (work->kind == 'K') {
    KernelRecord record{};
    record.name = buffers().names.insert(work->name).first->c_str();
    record.gridX = int32_t(work->grid[0]), record.gridY = int32_t(work->grid[1]), record.gridZ = int32_t(work->grid[2]);
    record.blockX = int32_t(work->block[0]), record.blockY = int32_t(work->block[1]), record.blockZ = int32_t(work->block[2]);
    record.dynamicSharedMemory = int32_t(work->shared);
    record.registersPerThread = 32;  // as the runtime's cudaFuncGetAttributes
    add_work(record, kind, *work);
  } else if (work->kind == 'C') {
    CUpti_ActivityMemcpy5 record{};
    record.copyKind = copy_kind(work->from, work->to);
    record.srcKind = memory_kind(work->from), record.dstKind = memory_kind(work->to);
    record.bytes = work->bytes;
    add_work(record, kind, *work);
  } else if (work->kind == 'W') {
    add_wait(*work);
  } else {
    CUpti_ActivityMemset4 record{};
    record.value = work->value, record.bytes = work->bytes;
    record.memoryKind = memory_kind(work->to);
    add_work(record, kind, *work);
  }
}

CUptiResult enable(CUpti_ActivityKind kind, bool on) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) return CUPTI_ERROR_INVALID_KIND;
  if (!simcuda_device_count()) return CUPTI_ERROR_NOT_INITIALIZED;
  buffers().enabled[kind] = on;
  bool any = false;
  for (auto& one : buffers().enabled) any = any || one;
  static const simcuda_listener listener{time_now, on_call, on_work};
  simcuda_listen(any ? &listener : nullptr);
  return CUPTI_SUCCESS;
}

CUpti_SubscriberHandle subscribed = nullptr;

}  // namespace

API CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS                           ? "CUPTI_SUCCESS"
          : result == CUPTI_ERROR_NOT_INITIALIZED           ? "CUPTI_ERROR_NOT_INITIALIZED"
          : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                                                            : "CUPTI_ERROR_NOT_SUPPORTED: not part of the simulated device";
  return CUPTI_SUCCESS;
}

// ---- callbacks: one subscriber, as the real one has; nothing calls it ----
API CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* out, CUpti_CallbackFunc, void*) {
  if (!simcuda_device_count()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  static char place;
  *out = subscribed = reinterpret_cast<CUpti_SubscriberHandle>(&place);
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  subscribed = nullptr;
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) { return CUPTI_SUCCESS; }
API CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) { return CUPTI_SUCCESS; }

// ---- activity ----
API CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  std::lock_guard<std::mutex> lock(buffers().lock);
  buffers().request = request, buffers().complete = complete;
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  clock_in_use.take(function);
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) { return CUPTI_SUCCESS; }
API CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return enable(kind, true); }
API CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return enable(kind, false); }
API CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!outer[kind]) outer[kind] = new std::vector<uint64_t>;
  outer[kind]->push_back(id);
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!outer[kind] || outer[kind]->empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last) *last = outer[kind]->back();
  outer[kind]->pop_back();
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::lock_guard<std::mutex> lock(buffers().lock);
  buffers().flush();
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  auto* next = *record ? reinterpret_cast<uint8_t*>(*record) + size_of((*record)->kind) : buffer;
  if (!buffer || next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
