#include "ledger.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "addresses.h"
#include "world.h"

namespace sim::ledger {
namespace {

constexpr uint64_t kSeed = 1469598103934665603u, kPrime = 1099511628211u;  // FNV-1a, 64 bits
constexpr size_t kKept = size_t(64) << 20;  // bytes of entries kept for simcuda_ledger_entries

// Of one thread. Which of two threads comes first is chance, so each has its own order and its own numbers, and what all
// of them did is told by a sum. Threads of the autograd engine and of NCCL come and go as tests do.
struct Record {
  uint64_t exact = kSeed, loose = kSeed, plain = kSeed;
  uint64_t counts[kKinds] = {};
  std::string entries;
  std::unordered_map<uint64_t, int> numbers;  // allocation's serial number -> number by first appearance
  std::unordered_map<uint64_t, int> streams;  // the same for a stream's id
};
struct Since {  // the last reset
  uint64_t reset = 1;
  std::vector<std::unique_ptr<Record>> threads;
  size_t kept = 0;
};
Since* since() {
  static auto* s = new Since;
  return s;
}
thread_local uint64_t mine_of = 0;
thread_local Record* mine = nullptr;
Record* record() {
  if (mine_of != since()->reset) {
    since()->threads.push_back(std::make_unique<Record>());
    mine = since()->threads.back().get();
    mine_of = since()->reset;
  }
  return mine;
}
uint64_t spread(uint64_t z) {  // splitmix64, so that a sum of digests is not theirs in disguise
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
bool keep_entries = false;

uint64_t mix(uint64_t digest, const std::string& text) {
  for (unsigned char c : text) digest = (digest ^ c) * kPrime;
  return (digest ^ '\n') * kPrime;
}

// What SIMCUDA_LEDGER names, with the number of the process.
struct File {
  bool asked = false;  // of this process; a forked child has a file of its own
  int descriptor = -1;
  std::string name;

  void leave() {
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
  }
  void give_up() {
    fprintf(stderr, "simcuda: the ledger %s: %s\n", name.c_str(), strerror(errno));
    leave();
  }
};
File* file() {
  static auto* f = new File;
  return f;
}
void leave_file_of_parent() {
  file()->leave();
  file()->asked = false;
}

// Is a ledger asked for, and can it be written?
bool has_file() {
  if (file()->asked) return file()->descriptor >= 0;
  static const int at_fork = pthread_atfork(nullptr, nullptr, leave_file_of_parent);
  (void)at_fork;
  file()->asked = true;
  const char* path = getenv("SIMCUDA_LEDGER");
  if (!path || !*path) return false;
  file()->name = std::string(path) + "." + std::to_string(getpid());
  file()->descriptor = open(file()->name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file()->descriptor < 0) file()->give_up();
  return file()->descriptor >= 0;
}

// Without a buffer: a process may end by _exit, and a forked child would write what its parent had in one once more.
void write_line(const std::string& line) {
  for (size_t written = 0; file()->descriptor >= 0 && written < line.size();) {
    ssize_t n = write(file()->descriptor, line.data() + written, line.size() - written);
    if (n >= 0)
      written += size_t(n);
    else if (errno != EINTR)
      file()->give_up();
  }
}

}  // namespace

bool wanted() { return true; }

void note(Kind kind, const std::string& exact, const std::string& loose, const std::string& plain) {
  Record& r = *record();
  r.counts[int(kind)]++;
  r.exact = mix(r.exact, exact);
  r.loose = mix(r.loose, loose);
  if (!plain.empty()) r.plain = mix(r.plain, plain);
  if (keep_entries && since()->kept < kKept) {
    r.entries += exact, r.entries += '\n';
    since()->kept += exact.size() + 1;
  }
  if (has_file()) write_line(exact + '\n');
}

Place place(const void* address) {
  const Allocation* found = addresses().find(address);
  if (!found) return {};
  auto& numbers = record()->numbers;
  int number = shaken() ? int(found->serial) : numbers.emplace(found->serial, int(numbers.size())).first->second;
  std::string exact = "[" + std::to_string(number) + "," + std::to_string((const char*)address - found->base);
  if (!found->on_device() || !found->device) return {exact + "]", "P"};
  const std::string device = std::to_string(found->device);
  return {exact + "," + device + "]", "P" + device};
}

std::string number(const StreamName& stream) {
  if (!stream.is_null && !stream.id) return "\"none\"";
  auto& streams = record()->streams;
  const int number = stream.is_null ? 0 : streams.emplace(stream.id, int(streams.size()) + 1).first->second;
  const std::string text = std::to_string(number) + (stream.is_blocking ? " blocking" : "");
  const std::string whole = stream.device ? std::to_string(stream.device) + ":" + text : text;
  return stream.device || stream.is_blocking ? "\"" + whole + "\"" : whole;
}

}  // namespace sim::ledger

using sim::ledger::since;

SIM_API int simcuda_ledger_format(void) { return sim::ledger::kFormat; }
SIM_API void simcuda_ledger_reset(int keep_entries) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  since()->reset++;
  since()->threads.clear();
  since()->kept = 0;
  sim::ledger::keep_entries = keep_entries;
}
// out: exact, loose and plain digest, launches, copies, sets, allocations, library calls, graph launches, events
SIM_API void simcuda_ledger_totals(unsigned long long out[10]) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  for (int i = 0; i < 3 + sim::ledger::kKinds; i++) out[i] = 0;
  for (auto& r : since()->threads) {
    out[0] += sim::ledger::spread(r->exact), out[1] += sim::ledger::spread(r->loose);
    out[2] += sim::ledger::spread(r->plain);
    for (int i = 0; i < sim::ledger::kKinds; i++) out[3 + i] += r->counts[i];
  }
}
// Lines of JSON since the reset, thread by thread; returns their length, copies at most `room` bytes.
SIM_API size_t simcuda_ledger_entries(char* out, size_t room) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  size_t length = 0;
  for (auto& r : since()->threads) {
    if (out && length < room) memcpy(out + length, r->entries.data(), std::min(r->entries.size(), room - length));
    length += r->entries.size();
  }
  return length;
}
// A call of a library, its arguments as a JSON array (without the brackets); pointers have been written as text already.
SIM_API void simcuda_library_call(const char* name, const char* exact, const char* loose) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  auto line = [&](const char* arguments) { return std::string("[\"call\",\"") + name + "\",[" + arguments + "]]"; };
  sim::ledger::note(sim::ledger::Kind::library, line(exact), line(loose));
}
// A place into `exact` and `loose`, or "0" for null, or "host" for memory that is not the device's.
SIM_API void simcuda_place(const void* address, char* exact, char* loose, size_t room) {
  std::lock_guard<std::recursive_mutex> lock(sim::world());
  const sim::ledger::Place place = sim::ledger::place(address);
  const char* other = address ? "\"host\"" : "0";
  snprintf(exact, room, "%s", place.exact.empty() ? other : place.exact.c_str());
  snprintf(loose, room, "%s", place.exact.empty() ? other : ("\"" + place.loose + "\"").c_str());
}
