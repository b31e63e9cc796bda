#include "addresses.h"

namespace sim {

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

Addresses& addresses() {
  static auto* all = new Addresses;
  return *all;
}

}  // namespace sim
