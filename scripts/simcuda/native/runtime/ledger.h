// The record of what a GPU would have been asked to do: one line of JSON an entry, and two running digests of all.
#pragma once
#include <cstdint>
#include <string>

struct CUstream_st;

namespace sim::ledger {

enum class Kind { launch, copy, set, allocation, library, graph, order };
constexpr int kKinds = 7;

// `exact` has pointers as [allocation, offset], `loose` has them all alike. `plain` is what a real device can be asked for
// too, without argument bytes; empty where it cannot. All are JSON arrays.
void note(Kind kind, const std::string& exact, const std::string& loose, const std::string& plain = "");
inline void note(Kind kind, const std::string& text) { note(kind, text, text); }

// Is anybody listening? Argument bytes are read only then.
bool wanted();

// The address as "[allocation, offset]", allocations numbered by first appearance since the last reset; "" if none.
std::string place(const void* address);

// The stream as a number: 0 is its device's own, others are numbered by first appearance since the last reset.
std::string number(const CUstream_st& stream);

}  // namespace sim::ledger
