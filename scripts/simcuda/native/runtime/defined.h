// Which bytes of memory a program set, as valgrind's memcheck knows it; elsewhere nobody does.
#pragma once
#include <cstddef>
#include <vector>

namespace sim {

// For each byte whether a bit of it was never set. Empty without memcheck, and where all are set.
std::vector<bool> never_set(const void* bytes, size_t size);

}  // namespace sim
