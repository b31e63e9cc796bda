#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace sim {
namespace {

constexpr size_t kContext = size_t(512) << 20;  // what a context itself takes: a program never gets all of the memory
constexpr size_t kSmall = 512, kLarge = size_t(2) << 20, kPage = 4096;
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

bool Arena::open(int device, size_t limit) {
  if (base_) return true;
  limit_ = limit;
  used_ = limit / 32 < kContext ? limit / 32 : kContext;
  // cudaMalloc does not fragment on real devices as long as a program frees whole 2 MiB pages, since the driver
  // maps them anywhere: hence an address range larger than the memory
  span_ = round_up(limit * 4, kLarge);
  file_ = memfd_create("simcuda", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, off_t(span_))) return false;
  // a fixed place for each device, so that pointers repeat from run to run
  void* wanted = (void*)(0x700000000000u - uint64_t(device + 1) * 0x20000000000u);
  void* got = mmap(wanted, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file_, 0);
  if (got == MAP_FAILED) got = mmap(nullptr, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (got == MAP_FAILED) return false;
  base_ = (char*)got;
  holes_[0] = span_;
  return true;
}

bool Arena::allocate(size_t size, size_t* offset, size_t* taken) {
  size_t alignment = size >= kLarge / 2 ? kLarge : kSmall, need = round_up(size ? size : 1, kSmall);
  if (need > limit_ - used_) return false;
  for (auto it = holes_.begin(); it != holes_.end(); ++it) {
    auto [start, length] = *it;
    size_t at = round_up(start, alignment);
    if (at + need > start + length) continue;
    holes_.erase(it);
    if (at > start) holes_[start] = at - start;
    if (start + length > at + need) holes_[at + need] = start + length - at - need;
    live_[at] = need;
    used_ += need;
    *offset = at;
    *taken = need;
    return true;
  }
  return false;
}

bool Arena::release(size_t offset) {
  auto it = live_.find(offset);
  if (it == live_.end()) return false;
  size_t length = it->second;
  live_.erase(it);
  used_ -= length;
  size_t first = round_up(offset, kPage), last = (offset + length) / kPage * kPage;
  if (last > first) fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(first), off_t(last - first));
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + length) {
    length += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += length;
      return true;
    }
  }
  holes_[offset] = length;
  return true;
}

}  // namespace sim
