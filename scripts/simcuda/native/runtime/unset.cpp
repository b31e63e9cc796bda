#include "unset.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace sim {
namespace {

constexpr size_t kPage = 4096;
using Table = std::unordered_map<uint64_t, std::vector<Unset>>;

uint64_t digest(const std::string& text) {  // FNV-1a, 64 bits
  uint64_t d = 1469598103934665603u;
  for (unsigned char c : text) d = (d ^ c) * 1099511628211u;
  return d;
}

// Lines of four numbers: digest of a kernel's name (hexadecimal), argument, first byte, byte after the last.
const Table& table() {
  static const Table* read = [] {
    auto* t = new Table;
    const char* path = getenv("SIMCUDA_UNSET");
    FILE* file = path && *path ? fopen(path, "r") : nullptr;
    if (!file) return t;
    unsigned long long kernel;
    Unset u;
    while (fscanf(file, "%llx %u %u %u", &kernel, &u.argument, &u.first, &u.last) == 4) (*t)[kernel].push_back(u);
    fclose(file);
    return t;
  }();
  return *read;
}

unsigned char fill = 0;

// Before any other thread: the number, and the heap moved by some small blocks that are never given back.
const unsigned shake = [] {
  const char* text = getenv("SIMCUDA_SHAKE");
  unsigned n = text ? unsigned(strtoul(text, nullptr, 10)) : 0;
  if (n) {
    fill = (unsigned char)(n * 0x5b);
    for (unsigned i = 0; i < 64; i++) {
      void* volatile kept = malloc(16 * (1 + (n * 37 + i * n * 11) % 61));
      (void)kept;
    }
  }
  return n;
}();

template <unsigned kPages>
__attribute__((noinline)) void paint_pages() {
  unsigned char free_part[kPages * kPage];
  memset(free_part, fill, sizeof free_part);
  asm volatile("" : : "r"(free_part) : "memory");
}

}  // namespace

unsigned shaken() { return shake; }

const std::vector<Unset>& unset_of(const std::string& kernel) {
  static const std::vector<Unset> none;
  if (table().empty()) return none;
  auto found = table().find(digest(kernel));
  return found == table().end() ? none : found->second;
}

void paint(unsigned pages) { pages > 4 ? paint_pages<32>() : paint_pages<4>(); }

}  // namespace sim
