// The memory of one device: a sparse file, so that other processes and the driver's mappings can share its pages.
#pragma once
#include <cstddef>
#include <map>

namespace sim {

class Arena {
 public:
  // Reserves the address range; takes no memory until pages are touched.
  bool open(int device, size_t limit);
  bool is_open() const { return base_ != nullptr; }
  // First fit. False when the limit is reached, or when no hole is large enough (the device is fragmented).
  bool allocate(size_t size, size_t* offset, size_t* taken);
  bool release(size_t offset);  // gives the pages back
  char* at(size_t offset) const { return base_ + offset; }
  size_t offset_of(const void* address) const { return (const char*)address - base_; }
  bool holds(const void* address) const { return base_ && address >= base_ && address < base_ + span_; }
  int file() const { return file_; }
  size_t used() const { return used_; }
  size_t limit() const { return limit_; }

 private:
  char* base_ = nullptr;
  size_t span_ = 0, limit_ = 0, used_ = 0;
  int file_ = -1;
  std::map<size_t, size_t> holes_, live_;  // offset -> bytes
};

}  // namespace sim
