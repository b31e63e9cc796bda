// Bytes of a kernel's arguments that nobody set: what a call before left on the stack lies in them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sim {

// What a program was told of them, by the name of a kernel: for each argument the ranges [first, last) of such bytes.
struct Unset {
  unsigned argument, first, last;
};
// Those that the file of SIMCUDA_UNSET lists for a kernel, sorted; `python -m simcuda unset` writes it.
const std::vector<Unset>& unset_of(const std::string& kernel);

// SIMCUDA_SHAKE, 0 for none: a run that is to differ from others in every byte that nobody set. The stack is painted with
// another byte, the heap begins elsewhere, and allocations have their serial numbers (a stale pointer that is met first
// would give all others another number).
unsigned shaken();

// Overwrite the free part of this thread's stack, so that what is left there is the same in every run.
void paint(unsigned pages = 4);

}  // namespace sim
