#include "defined.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace sim {

std::vector<bool> never_set(const void* bytes, size_t size) {
  std::vector<bool> found;
#ifdef VALGRIND_GET_VBITS
  constexpr int kRead = 1;  // what the request answers when it wrote the bits: 1 where one is not defined
  std::vector<unsigned char> bits(size);
  if (size && RUNNING_ON_VALGRIND && VALGRIND_GET_VBITS(bytes, bits.data(), size) == kRead)
    for (size_t i = 0; i < size; i++)
      if (bits[i]) found.resize(size), found[i] = true;
#else
  (void)bytes, (void)size;
#endif
  return found;
}

}  // namespace sim
