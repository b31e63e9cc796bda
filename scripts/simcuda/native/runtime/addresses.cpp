#include "addresses.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t kHigh = uint64_t(1) << 40, kEnd = uint64_t(1) << 47;

// Where the heap begins that grows by brk(2); 0 where there is none.
uint64_t heap_begin() {
  static const uint64_t begin = [] {
    unsigned long long first = 0, found = 0;
    char line[512];
    FILE* maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
      if (strstr(line, "[heap]") && sscanf(line, "%llx", &first) == 1) found = first;
    if (maps) fclose(maps);
    return uint64_t(found);
  }();
  return begin;
}

}  // namespace

Allocation& Addresses::add(char* base, size_t size, int device, Memory memory, unsigned flags) {
  return map_[base] = Allocation{base, size, device, memory, flags, next_++};
}

Allocation* Addresses::find(const void* address) {
  auto it = map_.upper_bound((char*)address);
  if (it == map_.begin()) return nullptr;
  --it;
  return (const char*)address < it->first + it->second.size ? &it->second : nullptr;
}

bool Addresses::covers(const void* address, size_t size) {
  Allocation* found = find(address);
  return !found || (const char*)address + size <= found->base + found->size;
}

bool lies_high(uint64_t word) { return word >= kHigh && word < kEnd; }

bool in_low_heap(uint64_t word) {
  const uint64_t begin = heap_begin();
  return word < kHigh && begin && word >= begin && word < uint64_t(sbrk(0));
}

Addresses& addresses() {
  static auto* all = new Addresses;
  return *all;
}

}  // namespace sim
