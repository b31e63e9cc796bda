#include "ledger.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unordered_map>

#include <unistd.h>

#include "addresses.h"
#include "world.h"

namespace sim::ledger {
namespace {

constexpr uint64_t kSeed = 1469598103934665603u, kPrime = 1099511628211u;  // FNV-1a, 64 bits
constexpr size_t kKept = size_t(64) << 20;  // bytes of entries kept for simcuda_ledger_entries

struct Record {
  uint64_t exact = kSeed, loose = kSeed;
  uint64_t counts[6] = {};
  std::string entries;
  std::unordered_map<uint64_t, int> numbers;  // allocation's serial number -> number by first appearance
};
Record* record() {
  static auto* r = new Record;
  return r;
}
bool keep_entries = false;
FILE* file = nullptr;
bool opened = false;

uint64_t mix(uint64_t digest, const std::string& text) {
  for (unsigned char c : text) digest = (digest ^ c) * kPrime;
  return (digest ^ '\n') * kPrime;
}

// Names of kernels hold hashes of files and of architecture lists, which differ between builds by nature.
FILE* output() {
  if (!opened) {
    opened = true;
    const char* path = getenv("SIMCUDA_LEDGER");
    if (path && *path) file = fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "a");
  }
  return file;
}

}  // namespace

bool wanted() { return true; }

void note(Kind kind, const std::string& exact, const std::string& loose) {
  Record& r = *record();
  r.counts[int(kind)]++;
  r.exact = mix(r.exact, exact);
  r.loose = mix(r.loose, loose);
  if (keep_entries && r.entries.size() < kKept) r.entries += exact, r.entries += '\n';
  if (FILE* f = output()) fprintf(f, "%s\n", exact.c_str());
}

std::string place(const void* address) {
  const Allocation* found = addresses().find(address);
  if (!found) return "";
  auto& numbers = record()->numbers;
  int number = numbers.emplace(found->serial, int(numbers.size())).first->second;
  return "[" + std::to_string(number) + "," + std::to_string((const char*)address - found->base) + "]";
}

}  // namespace sim::ledger

using sim::ledger::record;

SIM_API void simcuda_ledger_reset(int keep_entries) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  *record() = {};
  sim::ledger::keep_entries = keep_entries;
}
// out: exact digest, loose digest, launches, copies, sets, allocations, library calls, graph launches
SIM_API void simcuda_ledger_totals(unsigned long long out[8]) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  out[0] = record()->exact, out[1] = record()->loose;
  for (int i = 0; i < 6; i++) out[2 + i] = record()->counts[i];
}
// Lines of JSON since the reset; returns their length, copies at most `room` bytes.
SIM_API size_t simcuda_ledger_entries(char* out, size_t room) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  const std::string& text = record()->entries;
  if (out) memcpy(out, text.data(), text.size() < room ? text.size() : room);
  return text.size();
}
SIM_API void simcuda_ledger_flush(void) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  if (sim::ledger::file) fflush(sim::ledger::file);
}
// A call of a library, its arguments as a JSON array (without the brackets); pointers have been written as text already.
SIM_API void simcuda_library_call(const char* name, const char* exact, const char* loose) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  auto line = [&](const char* arguments) { return std::string("[\"call\",\"") + name + "\",[" + arguments + "]]"; };
  sim::ledger::note(sim::ledger::Kind::library, line(exact), line(loose));
}
// "[allocation, offset]" into `out`, or "0" for null, or "host" for memory that is not the device's.
SIM_API void simcuda_place(const void* address, char* out, size_t room) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  std::string text = address ? sim::ledger::place(address) : "0";
  snprintf(out, room, "%s", text.empty() ? "\"host\"" : text.c_str());
}
