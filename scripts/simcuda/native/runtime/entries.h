// What the ledger says of a call: the same words whether the device is simulated, or a real one that is recorded.
#pragma once
#include "kernels.h"
#include "ledger.h"
#include "streams.h"

namespace sim {

// Which side of a copy an address is on: D device, P pinned or registered, H other memory of the host.
char side_letter(const void* address);

void note_launch(const Kernel& kernel, dim3 grid, dim3 block, size_t shared, const CUstream_st& stream, void** arguments);
void note_copy(const CUstream_st& stream, const void* to, const void* from, size_t width, size_t height);
void note_set(const CUstream_st& stream, const void* to, int value, size_t size);
// "record" of an event, or what the host waits for: "sync stream", "sync event" (the stream it was recorded in), "sync device".
void note_order(const char* what, const ledger::StreamName& stream);
// That a stream waits for what another one had been given when the event was recorded.
void note_wait(const CUstream_st& stream, const ledger::StreamName& recorded);
// That the host runs a function of the program's when the stream comes to it.
void note_host_function(const CUstream_st& stream);
void note_allocation(const char* what, size_t size, int device = 0);
void note_graph(const CUstream_st& stream, size_t steps);

}  // namespace sim
