// The record of what a GPU would have been asked to do: one line of JSON an entry, and two running digests of all.
#pragma once
#include <cstdint>
#include <string>

namespace sim::ledger {

enum class Kind { launch, copy, set, allocation, library, graph };

// `exact` has pointers as [allocation, offset], `loose` has them all alike. Both are JSON arrays.
void note(Kind kind, const std::string& exact, const std::string& loose);
inline void note(Kind kind, const std::string& text) { note(kind, text, text); }

// Is anybody listening? Argument bytes are read only then.
bool wanted();

// The address as "[allocation, offset]", allocations numbered by first appearance since the last reset; "" if none.
std::string place(const void* address);

}  // namespace sim::ledger
