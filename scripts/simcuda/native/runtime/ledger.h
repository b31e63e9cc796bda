// The record of what a GPU would have been asked to do: one line of JSON an entry, and two running digests of all.
#pragma once
#include <cstdint>
#include <string>

namespace sim::ledger {

// Of what an entry says. Ledgers of two formats say nothing of each other. 1 (until 2026-11-29) had no devices, no waits of the
// host, not for what a stream waits, and neither streams nor modes of libraries.
constexpr int kFormat = 2;

enum class Kind { launch, copy, set, allocation, library, graph, order };
constexpr int kKinds = 7;

// `exact` has pointers as [allocation, offset], `loose` has them all alike. `plain` is what a real device can be asked for
// too, without argument bytes; empty where it cannot. All are JSON arrays.
void note(Kind kind, const std::string& exact, const std::string& loose, const std::string& plain = "");
inline void note(Kind kind, const std::string& text) { note(kind, text, text); }

// Is anybody listening? Argument bytes are read only then.
bool wanted();

// An address of memory that CUDA knows: `exact` is "[allocation, offset]", with the device behind them if it is another than
// the first; allocations are numbered by first appearance since the last reset. `loose` is "P", or "P1" on device 1. Both are
// empty for other addresses.
struct Place {
  std::string exact, loose;
};
Place place(const void* address);

// A stream, whether it is still there or not; none where neither `id` nor `is_null` is set.
struct StreamName {
  int device = 0;
  unsigned long long id = 0;
  bool is_null = false;  // its device's own
  bool is_blocking = false;  // another one, for which its device's own waits, and which waits for that
};
// The stream as a number: 0 is its device's own, others are numbered by first appearance since the last reset. On another
// device than the first it is a text such as "1:0", of a blocking stream one such as "1 blocking", and "none" for none.
std::string number(const StreamName& stream);

}  // namespace sim::ledger
