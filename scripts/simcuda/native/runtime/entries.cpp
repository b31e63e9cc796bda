#include "entries.h"

#include <algorithm>
#include <cstring>

#include "addresses.h"
#include "defined.h"

namespace sim {
namespace {

// Is a byte of [first, last) of argument `number` known to be one that nobody sets?
bool unset(const Kernel& kernel, unsigned number, unsigned first, unsigned last) {
  for (const Unset& u : kernel.unset)
    if (u.argument == number && u.first < last && first < u.last) return true;
  return false;
}

// Argument bytes as hexadecimal digits, ".." where nobody sets one, "??" where memcheck saw that nobody did; a word that is
// an address of device memory is written as its place.
void write_argument(const Kernel& kernel, unsigned number, const unsigned char* bytes, std::string* exact,
                    std::string* loose) {
  static const char* digits = "0123456789abcdef";
  const unsigned size = kernel.arguments[number].size;
  const std::vector<bool> seen = never_set(bytes, size);
  auto open = [&](unsigned first, unsigned last) {
    return !seen.empty() && std::find(seen.begin() + first, seen.begin() + last, true) != seen.begin() + last;
  };
  for (unsigned i = 0; i < size;) {
    if (unset(kernel, number, i, i + 1)) {
      *exact += "..", *loose += "..";
      i++;
      continue;
    }
    if (open(i, i + 1)) {
      *exact += "??", *loose += "??";
      i++;
      continue;
    }
    if (i % 8 == 0 && size - i >= 8 && !unset(kernel, number, i, i + 8) && !open(i, i + 8)) {
      const void* word;
      memcpy(&word, bytes + i, 8);
      const ledger::Place place = word ? ledger::place(word) : ledger::Place{};
      if (!place.exact.empty()) {
        *exact += place.exact;
        *loose += place.loose;
        i += 8;
        continue;
      }
      if (!shaken() && (addresses().find(word) || (uint64_t(word) >> 40 && uint64_t(word) < (uint64_t(1) << 47)))) {
        *exact += "H", *loose += "H";  // an address of the host: it differs from run to run
        i += 8;
        continue;
      }
    }
    for (std::string* out : {exact, loose}) {
      *out += digits[bytes[i] >> 4];
      *out += digits[bytes[i] & 15];
    }
    i++;
  }
}

std::string dims(dim3 d) {
  return "[" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + "]";
}

// Places and streams are numbered as they first appear, so of two in an entry one is asked for in a statement of its own:
// which side of a sum comes first is the compiler's choice.
std::string place_of(const void* address) { return side_letter(address) == 'D' ? ledger::place(address).exact : "0"; }

// A side of a copy or fill: its letter, and on another device than the first that device's number behind it.
std::string side_of(const void* address) {
  const Allocation* a = addresses().find(address);
  return side_letter(address) + (a && a->on_device() && a->device ? std::to_string(a->device) : "");
}

}  // namespace

char side_letter(const void* address) {
  const Allocation* a = addresses().find(address);
  return !a ? 'H' : a->on_device() ? 'D' : 'P';
}

void note_launch(const Kernel& kernel, dim3 grid, dim3 block, size_t shared, const CUstream_st& stream, void** arguments) {
  std::string head = "[\"launch\",\"" + kernel.name + "\"," + dims(grid) + "," + dims(block) + "," + std::to_string(shared) +
                     "," + ledger::number(stream.name());
  std::string exact = head + ",\"", loose = exact;
  if (arguments)
    for (size_t i = 0; i < kernel.arguments.size(); i++) {
      if (i) exact += ' ', loose += ' ';
      write_argument(kernel, unsigned(i), (const unsigned char*)arguments[i], &exact, &loose);
    }
  ledger::note(ledger::Kind::launch, exact + "\"]", loose + "\"]", head + "]");
}

void note_copy(const CUstream_st& stream, const void* to, const void* from, size_t width, size_t height) {
  std::string head =
      "[\"copy\",\"" + side_of(from) + side_of(to) + "\"," + ledger::number(stream.name()) + "," + std::to_string(width);
  if (height > 1) head += "," + std::to_string(height);
  const std::string source = place_of(from);
  ledger::note(ledger::Kind::copy, head + "," + source + "," + place_of(to) + "]", head + "]", head + "]");
}

void note_set(const CUstream_st& stream, const void* to, int value, size_t size) {
  std::string head = "[\"set\"," + ledger::number(stream.name()) + "," + std::to_string(value) + "," + std::to_string(size);
  const std::string side = side_of(to), loose = head + (side.size() > 1 ? ",\"" + side + "\"]" : "]");
  ledger::note(ledger::Kind::set, head + "," + place_of(to) + "]", loose, loose);
}

void note_order(const char* what, const ledger::StreamName& stream) {
  std::string text = std::string("[\"") + what + "\"," + ledger::number(stream) + "]";
  ledger::note(ledger::Kind::order, text, text, text);
}

void note_wait(const CUstream_st& stream, const ledger::StreamName& recorded) {
  const std::string waits = ledger::number(stream.name());
  const std::string text = "[\"wait\"," + waits + "," + ledger::number(recorded) + "]";
  ledger::note(ledger::Kind::order, text, text, text);
}

// Nothing for `plain`: the recorder of a real device does not hear this call.
void note_host_function(const CUstream_st& stream) {
  ledger::note(ledger::Kind::order, "[\"host function\"," + ledger::number(stream.name()) + "]");
}

void note_allocation(const char* what, size_t size, int device) {
  std::string text = std::string("[\"") + what + "\"," + std::to_string(size);
  if (device) text += "," + std::to_string(device);
  ledger::note(ledger::Kind::allocation, text + "]");
}

void note_graph(const CUstream_st& stream, size_t steps) {
  std::string text = "[\"graph\"," + ledger::number(stream.name()) + "," + std::to_string(steps) + "]";
  ledger::note(ledger::Kind::graph, text, text, text);
}

}  // namespace sim
