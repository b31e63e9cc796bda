// The heap of a program that is not position independent, as Debian's Python is, grows right behind it, among small numbers,
// where the ledger cannot tell an address from one. A page in its way has malloc go on where other programs' heaps lie.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace {

__attribute__((constructor)) void heap_lies_high() {
  const auto end = uint64_t(sbrk(0)), page = uint64_t(sysconf(_SC_PAGESIZE));
  if (end >> 40) return;
  void* next = (void*)((end + page - 1) / page * page);
  mmap(next, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

}  // namespace
