// Reads from a fat binary what a kernel takes: the sections .nv.info.<kernel> of its cubin list each argument (attribute
// KPARAM_INFO), .nv.info the registers (REGCOUNT), and .nv.shared.<kernel> is as large as its shared memory. Nothing else of
// the image is looked at. Formats as `cuobjdump --dump-elf` prints them.
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels.h"

namespace sim {
namespace {

struct FatHeader {
  uint32_t magic;  // 0xBA55ED50
  uint16_t version, header_size;
  uint64_t size;  // of the entries
};
struct FatEntry {
  uint16_t kind, version;  // kind 2: ELF
  uint32_t header_size;
  uint64_t size;  // with padding
  uint32_t packed_size, unknown;
  uint16_t minor, major;
  uint32_t architecture, name_offset, name_size;
  uint64_t flags, zero, unpacked_size;
};
constexpr uint32_t kFatMagic = 0xBA55ED50;
constexpr uint16_t kPtx = 1, kElf = 2;
constexpr uint64_t kOnlyThis = 0x100000;  // flag of sm_90a and its like: for this architecture alone; of a family 0x200000

// One block of LZ4 (the public format: token, literals, offset, match). Empty when it is not one.
std::vector<unsigned char> unpack(const unsigned char* in, size_t size, size_t whole) {
  std::vector<unsigned char> out;
  out.reserve(whole);
  const unsigned char* end = in + size;
  auto more = [&](size_t n) {
    if (n == 15)
      for (unsigned char b = 255; b == 255 && in < end;) n += b = *in++;
    return n;
  };
  while (in < end) {
    unsigned char token = *in++;
    size_t literals = more(token >> 4);
    if (literals > size_t(end - in)) return {};
    out.insert(out.end(), in, in + literals);
    in += literals;
    if (in >= end) break;
    if (end - in < 2) return {};
    size_t back = size_t(in[0]) | size_t(in[1]) << 8;
    in += 2;
    size_t match = more(token & 15) + 4;
    if (!back || back > out.size() || out.size() + match > whole + 16) return {};
    for (size_t from = out.size() - back; match--; from++) out.push_back(out[from]);
  }
  return out;
}

// Calls `take` with the value of each attribute of this kind that has at least so many bytes.
template <class Take>
void each_attribute(const unsigned char* at, const unsigned char* end, unsigned char wanted, uint16_t least, Take take) {
  constexpr unsigned char kSized = 4;
  while (at + 4 <= end) {
    unsigned char format = at[0], attribute = at[1];
    uint16_t size = uint16_t(at[2] | at[3] << 8);
    const unsigned char* value = at + 4;
    at = value + (format == kSized ? size : 0);
    if (format == kSized && attribute == wanted && size >= least && value + least <= end) take(value);
  }
}

void read_arguments(const unsigned char* at, const unsigned char* end, std::vector<Argument>* out) {
  constexpr unsigned char kParameter = 0x17;
  struct Found {
    unsigned ordinal;
    Argument argument;
  };
  std::vector<Found> found;
  each_attribute(at, end, kParameter, 12, [&](const unsigned char* value) {
    uint16_t ordinal, offset;
    uint32_t packed;
    memcpy(&ordinal, value + 4, 2);
    memcpy(&offset, value + 6, 2);
    memcpy(&packed, value + 8, 4);
    found.push_back({ordinal, {offset, packed >> 18}});
  });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.ordinal < b.ordinal; });
  for (const Found& f : found) out->push_back(f.argument);
}

void read_registers(const unsigned char* at, const unsigned char* end, const std::vector<const char*>& symbols,
                    KernelTable* table) {
  constexpr unsigned char kRegisters = 0x2F;
  each_attribute(at, end, kRegisters, 8, [&](const unsigned char* value) {
    uint32_t symbol, registers;
    memcpy(&symbol, value, 4);
    memcpy(&registers, value + 4, 4);
    if (symbol < symbols.size()) (*table)[symbols[symbol]].registers = registers;
  });
}

KernelTable read_elf(const unsigned char* image, size_t size) {
  KernelTable table;
  Elf64_Ehdr head;
  if (size < sizeof head) return table;
  memcpy(&head, image, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_shoff + size_t(head.e_shnum) * sizeof(Elf64_Shdr) > size) return table;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  memcpy(sections.data(), image + head.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  if (head.e_shstrndx >= sections.size()) return table;
  const char* names = (const char*)image + sections[head.e_shstrndx].sh_offset;
  std::vector<const char*> symbols;
  for (const Elf64_Shdr& s : sections) {
    if (s.sh_type != SHT_SYMTAB || s.sh_offset + s.sh_size > size || s.sh_link >= sections.size()) continue;
    const Elf64_Shdr& texts = sections[s.sh_link];
    for (size_t at = s.sh_offset; at + sizeof(Elf64_Sym) <= s.sh_offset + s.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      memcpy(&symbol, image + at, sizeof symbol);
      if (texts.sh_offset + symbol.st_name >= size) break;
      symbols.push_back((const char*)image + texts.sh_offset + symbol.st_name);
    }
  }
  constexpr char kArguments[] = ".nv.info.", kRegisters[] = ".nv.info", kShared[] = ".nv.shared.";
  for (const Elf64_Shdr& s : sections) {
    const char* name = names + s.sh_name;
    if (!strncmp(name, kShared, sizeof kShared - 1)) table[name + sizeof kShared - 1].shared = unsigned(s.sh_size);
    if (s.sh_offset + s.sh_size > size) continue;
    const unsigned char *at = image + s.sh_offset, *end = at + s.sh_size;
    if (!strcmp(name, kRegisters)) read_registers(at, end, symbols, &table);
    if (!strncmp(name, kArguments, sizeof kArguments - 1)) read_arguments(at, end, &table[name + sizeof kArguments - 1].arguments);
  }
  return table;
}

// Machine code runs on its own minor version and those above it within the major one; PTX is compiled for whatever is not below.
bool runs_on(const FatEntry& e, int architecture) {
  const int own = int(e.architecture);
  if (e.flags & kOnlyThis) return own == architecture;
  return own <= architecture && (e.kind == kPtx || (e.kind == kElf && own / 10 == architecture / 10));
}

struct FatBinary {
  KernelTable kernels;
  bool runs = true;  // has it something for the device? Where it is not understood nobody knows
};
FatBinary read(const void* fatbin, int architecture) {
  if (is_bundle(fatbin)) return {read_bundle(fatbin)};
  const auto* at = (const unsigned char*)fatbin;
  FatHeader head;
  memcpy(&head, at, sizeof head);
  if (head.magic != kFatMagic) return {};
  const unsigned char *entry = at + head.header_size, *end = entry + head.size, *best = nullptr;
  FatEntry chosen{};
  bool runs = false;
  while (entry + sizeof(FatEntry) <= end) {
    FatEntry e;
    memcpy(&e, entry, sizeof e);
    runs |= runs_on(e, architecture);
    if (e.kind == kElf && int(e.architecture) <= architecture && (!best || e.architecture > chosen.architecture))
      best = entry, chosen = e;
    if (!e.header_size || e.header_size + e.size == 0) break;
    entry += e.header_size + e.size;
  }
  if (!best) return {{}, runs};
  const unsigned char* data = best + chosen.header_size;
  if (!chosen.packed_size) return {read_elf(data, chosen.size), runs};
  auto whole = unpack(data, chosen.packed_size, chosen.unpacked_size);
  return {read_elf(whole.data(), whole.size()), runs};
}

}  // namespace

static const FatBinary& binary_of(const void* fatbin, int architecture) {
  static auto* tables = new std::unordered_map<const void*, FatBinary>;  // one per fat binary that a launch came from
  auto it = tables->find(fatbin);
  if (it == tables->end()) it = tables->emplace(fatbin, read(fatbin, architecture)).first;
  return it->second;
}

const KernelImage& image_of(const void* fatbin, const std::string& symbol, int architecture) {
  static const KernelImage none;
  const KernelTable& table = binary_of(fatbin, architecture).kernels;
  auto found = table.find(symbol);
  return found == table.end() ? none : found->second;
}

// A code object lists all that there is; of a cubin the file may be cut, or compiled by a release that is not known yet.
cudaError_t refusal_of(const void* fatbin, const std::string& symbol, int architecture) {
  const FatBinary& binary = binary_of(fatbin, architecture);
  if (!binary.runs) return cudaErrorNoKernelImageForDevice;
  const bool absent = is_bundle(fatbin) && !binary.kernels.empty() && !binary.kernels.count(symbol);
  return absent ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

}  // namespace sim
