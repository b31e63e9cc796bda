// NCCL that moves data, between processes or between the devices of one. A collective is work of its stream; that work is
// done when it is enqueued, so the call waits for the other ranks where the real one returns at once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_numbers.h"
#include "nccl_room.h"
#include "record.h"

using simnccl::Reduction;
using simnccl::Room;
using simnccl::size_of;

struct ncclComm {
  int ranks, rank, device;
  std::shared_ptr<Room> room;
  int splits = 0;
  std::map<int, double> factors{};  // of reductions made by the user
  int reductions = 0;               // how many were made: a number is given once
  std::atomic<bool> failed{false};
};

namespace {

#define API extern "C" __attribute__((visibility("default"))) ncclResult_t

// ---- groups: what is between start and end of a thread is done at the end, first what sends, then what waits ----
struct Pending {
  ncclComm_t comm;
  bool waits;
  std::function<ncclResult_t()> run;
  ncclResult_t result = ncclSuccess;
};
thread_local int depth = 0;
thread_local std::vector<Pending> pending;

void run_waiting(std::vector<Pending>& list) {
  std::map<ncclComm_t, std::vector<Pending*>> by_comm;  // several ranks of one process wait for each other
  for (auto& p : list)
    if (p.waits) by_comm[p.comm].push_back(&p);
  if (by_comm.size() <= 1) {
    for (auto& p : list)
      if (p.waits) p.result = p.run();
    return;
  }
  std::vector<std::thread> threads;
  for (auto& entry : by_comm)
    threads.emplace_back([&entry] {
      for (Pending* p : entry.second) p->result = p->run();
    });
  for (auto& t : threads) t.join();
}
// The first refusal in the order of the calls.
ncclResult_t run_all(std::vector<Pending> list) {
  for (auto& p : list)
    if (!p.waits) p.result = p.run();
  run_waiting(list);
  for (auto& p : list)
    if (p.result != ncclSuccess) return p.result;
  return ncclSuccess;
}
ncclResult_t give(ncclComm_t comm, bool waits, std::function<ncclResult_t()> run) {
  pending.push_back({comm, waits, std::move(run)});
  if (depth) return ncclSuccess;
  auto list = std::move(pending);
  pending.clear();
  return run_all(std::move(list));
}

// As work of the stream, on the communicator's device. What an abort ended is no error of the call: on a GPU that has
// returned long before.
ncclResult_t on_stream(ncclComm_t comm, cudaStream_t stream, const char* name, std::function<bool()> work) {
  struct State {
    ncclComm_t comm;
    std::function<bool()> work;
  };
  int before;
  cudaGetDevice(&before);
  cudaSetDevice(comm->device);
  auto run = [](void* p) {
    auto* s = (State*)p;
    if (!s->work()) s->comm->failed = true;
  };
  auto drop = [](void* p) { delete (State*)p; };
  const int error = simcuda_enqueue(stream, run, drop, new State{comm, std::move(work)}, name);
  cudaSetDevice(before);
  if (error) return ncclUnhandledCudaError;
  return comm->failed && comm->room && comm->room->failed() ? ncclSystemError : ncclSuccess;
}

Reduction reduction(ncclComm_t comm, ncclRedOp_t op) {
  auto own = comm->factors.find(int(op));
  return own == comm->factors.end() ? Reduction{op, 1} : Reduction{ncclSum, own->second};
}

using Parts = std::vector<std::vector<char>>;

// Everybody's `size` bytes at `in`, then `finish` with all of them. `each`: the bytes of one rank, alike in all, as `also`
// is, in words. `prepare` may put other bytes in the place of those at `in`.
ncclResult_t collective(const char* name, size_t each, const std::string& also, ncclComm_t comm, cudaStream_t stream,
                        const void* in, size_t size, std::function<void(const Parts&)> finish,
                        std::function<void(std::vector<char>*)> prepare = nullptr) {
  const std::string what = std::string(name) + " of " + std::to_string(each) + " bytes" + also;
  return give(comm, true, [=] {
    return on_stream(comm, stream, name, [=] {
      Parts all;
      std::vector<char> prepared;
      if (prepare) prepare(&prepared);
      if (!comm->room->exchange(what, prepare ? prepared.data() : in, size, &all)) return false;
      finish(all);
      return true;
    });
  });
}
std::string rooted(const char* word, int root) { return std::string(word) + std::to_string(root); }

// A reduction of `total` numbers of each rank. A factor of the user's is that of one rank, for its own numbers.
ncclResult_t reduction_of(const char* name, size_t each, const std::string& also, ncclComm_t comm, cudaStream_t stream,
                          const void* in, size_t total, ncclDataType_t type, Reduction r,
                          std::function<void(const Parts&)> finish) {
  const std::string numbers = " of type " + std::to_string(type) + " by operation " + std::to_string(r.op) + also;
  std::function<void(std::vector<char>*)> multiply = [=](std::vector<char>* out) {
    out->resize(total * size_of(type));
    simnccl::reduce({in}, total, type, r, out->data());
  };
  return collective(name, each, numbers, comm, stream, in, total * size_of(type), std::move(finish),
                    r.factor == 1 ? nullptr : multiply);
}
std::vector<const void*> pointers(const Parts& parts, size_t offset = 0) {
  std::vector<const void*> out;
  for (auto& part : parts) out.push_back(part.data() + offset);
  return out;
}

std::string hexadecimal(const ncclUniqueId& id) { return std::string(id.internal, strnlen(id.internal, 64)); }

ncclComm_t make(const std::string& id, int ranks, int rank, int device) {
  auto* comm = new ncclComm{ranks, rank, device, std::make_shared<Room>(id, ranks, rank)};
  return comm;
}

// Waits for the other ranks. Two on one device are refused, as by NCCL.
ncclResult_t join(ncclComm_t comm) {
  char mine[32] = {};
  Parts all;
  if (cudaDeviceGetPCIBusId(mine, sizeof mine, comm->device) != cudaSuccess) return ncclUnhandledCudaError;
  if (!comm->room->wait_for_all() || !comm->room->exchange("ncclCommInitRank", mine, sizeof mine, &all)) return ncclSystemError;
  for (int r = 0; r < comm->ranks; r++)
    if (r != comm->rank && !memcmp(all[size_t(r)].data(), mine, sizeof mine)) return ncclInvalidUsage;
  return ncclSuccess;
}

}  // namespace

API ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    default: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  }
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t) { return ""; }

// ---- communicators ----
API ncclGetUniqueId(ncclUniqueId* id) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::random_device random;
  memset(id, 0, sizeof *id);
  for (int i = 0; i < 4; i++) snprintf(id->internal + 8 * i, 9, "%08x", random());
  return ncclSuccess;
}
API ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  simlib::Call call("ncclCommInitRank");
  call << ranks << rank;
  if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  int device;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  ncclComm_t comm = *out = make(hexadecimal(id), ranks, rank, device);
  return give(comm, true, [comm] {
    ncclResult_t result = join(comm);
    comm->failed = result != ncclSuccess;
    return result;
  });
}
API ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(out, ranks, id, rank);
}
API ncclCommInitAll(ncclComm_t* out, int count, const int* devices) {
  simlib::Call call("ncclCommInitAll");
  call << count;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  for (int i = 0; i < count; i++) out[i] = make(hexadecimal(id), count, i, devices ? devices[i] : i);
  return ncclSuccess;
}
API ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  simlib::Call call("ncclCommSplit");
  call << color << key;
  int mine[] = {color, key};
  Parts all;
  if (!comm->room->exchange("ncclCommSplit", mine, sizeof mine, &all)) return ncclSystemError;
  *out = nullptr;
  std::string id = comm->room->id() + "-" + std::to_string(comm->splits++) + "-" + std::to_string(color);
  if (color < 0) return ncclSuccess;
  std::vector<std::pair<int, int>> members;  // key, old rank
  for (int r = 0; r < comm->ranks; r++) {
    int theirs[2];
    memcpy(theirs, all[size_t(r)].data(), sizeof theirs);
    if (theirs[0] == color) members.emplace_back(theirs[1], r);
  }
  std::sort(members.begin(), members.end());
  int rank = int(std::find(members.begin(), members.end(), std::make_pair(key, comm->rank)) - members.begin());
  *out = make(id, int(members.size()), rank, comm->device);
  return (*out)->room->wait_for_all() ? ncclSuccess : ncclSystemError;
}
API ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
API ncclCommDestroy(ncclComm_t comm) {
  comm->room.reset();  // the object stays: works of a graph may still name it
  return ncclSuccess;
}
API ncclCommAbort(ncclComm_t comm) {
  if (comm->room) comm->room->abort();
  comm->failed = true;
  return ncclSuccess;
}
API ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->failed ? ncclSystemError : ncclSuccess;
  return ncclSuccess;
}
API ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->ranks;
  return ncclSuccess;
}
API ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
API ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}
API ncclCommRegister(const ncclComm_t, void*, size_t, void** handle) {
  *handle = nullptr;
  return ncclSuccess;
}
API ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }
API ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t, ncclComm_t comm) {
  double factor;
  switch (type) {
    case ncclFloat64: factor = *(double*)scalar; break;
    case ncclFloat32: factor = *(float*)scalar; break;
    case ncclFloat16: factor = double(float(*(__half*)scalar)); break;
    case ncclBfloat16: factor = double(float(*(__nv_bfloat16*)scalar)); break;
    default: return ncclInvalidArgument;
  }
  int number = ncclNumOps + comm->reductions++;
  comm->factors[number] = factor;
  *op = ncclRedOp_t(number);
  return ncclSuccess;
}
API ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  comm->factors.erase(int(op));
  return ncclSuccess;
}
API ncclGroupStart() {
  depth++;
  return ncclSuccess;
}
API ncclGroupEnd() {
  if (!depth) return ncclInvalidUsage;
  if (--depth) return ncclSuccess;
  auto list = std::move(pending);
  pending.clear();
  return run_all(std::move(list));
}

// ---- collectives ----
// With the communicator it went to and the stream that waits for it.
#define RECORD(...)            \
  simlib::Call call(__func__); \
  record(call, __VA_ARGS__, comm->ranks, comm->rank, stream)
template <class... T>
static void record(simlib::Call& call, const T&... values) {
  (void)std::initializer_list<int>{(call << values, 0)...};
}
API ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                  cudaStream_t stream) {
  RECORD(in, out, count, type, op);
  Reduction r = reduction(comm, op);
  const size_t size = count * size_of(type);
  return reduction_of("ncclAllReduce", size, "", comm, stream, in, count, type, r,
                      [=](const Parts& all) { simnccl::reduce(pointers(all), count, type, {r.op}, out); });
}
API ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
               cudaStream_t stream) {
  RECORD(in, out, count, type, op, root);
  Reduction r = reduction(comm, op);
  const size_t size = count * size_of(type);
  return reduction_of("ncclReduce", size, rooted(" to rank ", root), comm, stream, in, count, type, r, [=](const Parts& all) {
    if (comm->rank == root) simnccl::reduce(pointers(all), count, type, {r.op}, out);
  });
}
API ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                  cudaStream_t stream) {
  RECORD(in, out, count, type, root);
  size_t size = count * size_of(type);
  return collective("ncclBroadcast", size, rooted(" from rank ", root), comm, stream, in, comm->rank == root ? size : 0,
                    [=](const Parts& all) { memcpy(out, all[size_t(root)].data(), size); });
}
API ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
API ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  RECORD(in, out, count, type);
  size_t size = count * size_of(type);
  return collective("ncclAllGather", size, "", comm, stream, in, size, [=](const Parts& all) {
    for (size_t r = 0; r < all.size(); r++) memcpy((char*)out + r * size, all[r].data(), size);
  });
}
API ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                      cudaStream_t stream) {
  RECORD(in, out, count, type, op);
  size_t size = count * size_of(type);
  Reduction r = reduction(comm, op);
  return reduction_of("ncclReduceScatter", size, "", comm, stream, in, count * size_t(comm->ranks), type, r,
                      [=](const Parts& all) {
                        simnccl::reduce(pointers(all, size * size_t(comm->rank)), count, type, {r.op}, out);
                      });
}
API ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  RECORD(in, count, type, peer);
  return give(comm, false, [=] {
    return on_stream(comm, stream, "ncclSend", [=] { return comm->room->send(peer, in, count * size_of(type)); });
  });
}
API ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  RECORD(out, count, type, peer);
  return give(comm, true, [=] {
    return on_stream(comm, stream, "ncclRecv", [=] { return comm->room->receive(peer, out, count * size_of(type)); });
  });
}
