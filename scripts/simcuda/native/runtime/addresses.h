// Which memory an address belongs to: device, pinned, managed, mapped by the driver or from another process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

namespace sim {

enum class Memory { device, pooled, graph, reserved, imported, managed, pinned, registered };

struct Allocation {
  char* base;
  size_t size;      // as asked for, rounded up to the granularity of its kind
  int device;       // for pinned memory the device that was current
  Memory memory;
  unsigned flags;   // of cudaHostAlloc, cudaHostRegister
  uint64_t serial;  // counts up, never used twice
  bool live = true;   // of a graph: not freed since it was allocated last, nor by a node of that graph
  bool held = false;  // of a graph: by nodes that will allocate it again

  bool on_device() const { return memory != Memory::pinned && memory != Memory::registered; }
  bool on_host() const { return !on_device() || memory == Memory::managed; }
};

class Addresses {
 public:
  Allocation& add(char* base, size_t size, int device, Memory memory, unsigned flags = 0);
  void remove(char* base) { map_.erase(base); }
  // The allocation that holds `address`, or null.
  Allocation* find(const void* address);
  // Do all `size` bytes at `address` lie inside what it belongs to? True for host memory that CUDA does not know.
  bool covers(const void* address, size_t size);

 private:
  std::map<char*, Allocation> map_;
  uint64_t next_ = 1;
};

Addresses& addresses();

}  // namespace sim
