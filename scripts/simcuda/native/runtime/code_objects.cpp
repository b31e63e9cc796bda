// Reads how large a kernel's arguments are from what clang puts into a host's object file for AMD's devices: a bundle of code
// objects, one per architecture. Each is an ELF image whose note has the kernels and their arguments, as MessagePack (LLVM's
// documents "ClangOffloadBundler" and "AMDGPUUsage", msgpack.org). Nothing else of an image is looked at.
#include <elf.h>

#include <cstdint>
#include <cstring>

#include "kernels.h"

namespace sim {
namespace {

constexpr char kBundle[] = "__CLANG_OFFLOAD_BUNDLE__", kNote[] = "AMDGPU";
constexpr uint32_t kMetadata = 32;  // the kind of note
constexpr unsigned kLargest = 1 << 16;  // no argument is as large

// One value after the other; `ok` is false from the first byte on that is not there or not understood.
class Reader {
 public:
  Reader(const unsigned char* at, const unsigned char* end) : at_(at), end_(end) {}
  bool ok = true;

  size_t map() { return container(0x80, 0xde); }
  size_t list() { return container(0x90, 0xdc); }

  std::string text() {
    const unsigned first = unsigned(number(1));
    size_t size = first & 31;
    if (first >= 0xd9 && first <= 0xdb) size = size_t(number(size_t(1) << (first - 0xd9)));
    else if ((first & 0xe0) != 0xa0) ok = false;
    if (!ok || size > size_t(end_ - at_)) return ok = false, "";
    at_ += size;
    return std::string((const char*)at_ - size, size);
  }

  uint64_t whole() {
    const unsigned first = unsigned(number(1));
    if (first < 0x80) return first;
    if (first < 0xcc || first > 0xcf) return ok = false, 0;
    return number(size_t(1) << (first - 0xcc));
  }

  void skip(int depth = 0) {
    if (at_ >= end_ || depth > 32) ok = false;
    if (!ok) return;
    const unsigned first = *at_;
    if ((first & 0xf0) == 0x80 || first == 0xde || first == 0xdf) {
      for (size_t n = 2 * map(); n-- && ok;) skip(depth + 1);
    } else if ((first & 0xf0) == 0x90 || first == 0xdc || first == 0xdd) {
      for (size_t n = list(); n-- && ok;) skip(depth + 1);
    } else if ((first & 0xe0) == 0xa0 || (first >= 0xd9 && first <= 0xdb)) {
      text();
    } else if (first >= 0xca && first <= 0xd3) {  // floats, and whole numbers with and without a sign
      constexpr unsigned char kSizes[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
      number(1), number(kSizes[first - 0xca]);
    } else if (first < 0x80 || first >= 0xe0 || first == 0xc0 || first == 0xc2 || first == 0xc3) {
      number(1);
    } else {
      ok = false;
    }
  }

 private:
  const unsigned char *at_, *end_;

  uint64_t number(size_t bytes) {  // the highest byte is the first
    if (bytes > size_t(end_ - at_)) ok = false;
    if (!ok) return 0;
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *at_++;
    return value;
  }
  size_t container(unsigned small, unsigned large) {
    const unsigned first = unsigned(number(1));
    if ((first & 0xf0) == small) return first & 15;
    if (first != large && first != large + 1) return ok = false, 0;
    return size_t(number(first == large ? 2 : 4));
  }
};

// Calls `read(key)` for each key of the map that is next; it reads the value.
template <class F>
void each(Reader& from, F read) {
  for (size_t n = from.map(); n-- && from.ok;) {
    const std::string key = from.text();
    if (from.ok) read(key);
  }
}

void read_kernel(Reader& from, KernelTable* table) {
  std::string name;
  std::vector<Argument> arguments;
  each(from, [&](const std::string& key) {
    if (key == ".name") {
      name = from.text();
    } else if (key == ".args") {
      for (size_t n = from.list(); n-- && from.ok;) {
        Argument argument{};
        std::string kind;
        each(from, [&](const std::string& word) {
          if (word == ".offset") argument.offset = unsigned(from.whole());
          else if (word == ".size") argument.size = unsigned(from.whole());
          else if (word == ".value_kind") kind = from.text();
          else from.skip();
        });
        if (argument.size > kLargest) from.ok = false;
        if (kind.rfind("hidden_", 0)) arguments.push_back(argument);  // those are the runtime's, no program gives them
      }
    } else {
      from.skip();
    }
  });
  if (from.ok && !name.empty()) (*table)[name].arguments = arguments;
}

void read_metadata(const unsigned char* at, const unsigned char* end, KernelTable* table) {
  Reader from(at, end);
  each(from, [&](const std::string& key) {
    if (key != "amdhsa.kernels") return from.skip();
    for (size_t n = from.list(); n-- && from.ok;) read_kernel(from, table);
  });
}

KernelTable read_code_object(const unsigned char* image, size_t size) {
  KernelTable table;
  Elf64_Ehdr head;
  if (size < sizeof head) return table;
  memcpy(&head, image, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_shoff > size ||
      size_t(head.e_shnum) * sizeof(Elf64_Shdr) > size - head.e_shoff)
    return table;
  for (unsigned i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, image + head.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOTE || section.sh_offset > size || section.sh_size > size - section.sh_offset) continue;
    const unsigned char *at = image + section.sh_offset, *end = at + section.sh_size;
    Elf64_Nhdr note;
    while (size_t(end - at) >= sizeof note) {
      memcpy(&note, at, sizeof note);
      at += sizeof note;
      const size_t name = (size_t(note.n_namesz) + 3) & ~size_t(3), text = (size_t(note.n_descsz) + 3) & ~size_t(3);
      if (name > size_t(end - at) || note.n_descsz > size_t(end - at) - name) break;
      if (note.n_type == kMetadata && note.n_namesz == sizeof kNote && !memcmp(at, kNote, sizeof kNote))
        read_metadata(at + name, at + name + note.n_descsz, &table);
      if (name + text > size_t(end - at)) break;
      at += name + text;
    }
  }
  return table;
}

}  // namespace

bool is_bundle(const void* image) { return image && !memcmp(image, kBundle, sizeof kBundle - 1); }

// The sizes are the same for every architecture; a kernel may be there for one alone. Of a damaged head nothing is read.
KernelTable read_bundle(const void* image) {
  const auto* at = (const unsigned char*)image;
  const unsigned char* entry = at + sizeof kBundle - 1;
  uint64_t count;
  memcpy(&count, entry, 8);
  entry += 8;
  constexpr uint64_t kMost = uint64_t(1) << 32;
  KernelTable all;
  for (uint64_t i = 0; i < count && count < 1000; i++) {
    uint64_t about[3];  // where its code object lies, its size, the length of the name that follows
    memcpy(about, entry, sizeof about);
    if (about[0] > kMost || about[1] > kMost || about[2] > 256) return {};
    entry += sizeof about + about[2];
    all.merge(read_code_object(at + about[0], size_t(about[1])));
  }
  return all;
}

}  // namespace sim
