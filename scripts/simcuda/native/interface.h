// What the simulated runtime offers to the other stand-ins and to the shadows; all of it is exported by libcudart's stand-in.
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// devices
int simcuda_device_count(void);
int simcuda_driver_initialized(void);  // by the first call of the runtime, or by cuInit; never in a child forked later
void simcuda_visible_by(const char* const* variables);  // ends with null; the first that is set decides
int simcuda_current_device(void);
void simcuda_choose_device(int device);  // whether its context is there or not
int simcuda_physical(int device);
int simcuda_context_active(int device);
int simcuda_context_retain(int device);
unsigned simcuda_device_flags(int device);
size_t simcuda_device_memory(void);
int simcuda_attribute(int attribute, int device);
void simcuda_limit_blocks(unsigned depth, size_t shared);  // most threads in z, bytes of shared memory, of a launch
void simcuda_device_assert(void);
int simcuda_not_supported(const char* name);

// memory
int simcuda_physical_allocate(int device, size_t size, size_t* offset);
void simcuda_physical_release(int device, size_t offset);
int simcuda_physical_file(int device);
void simcuda_reserve(void* address, size_t size, int device);
void simcuda_unreserve(void* address);
void simcuda_reserved_for(void* address, int device);
int simcuda_address(const void* address, void** base, size_t* size, int* device);

// work
int simcuda_enqueue(void* stream, void (*run)(void*), void (*drop)(void*), void* state, const char* label);
int simcuda_launch(const char* symbol, const unsigned grid[3], const unsigned block[3], unsigned shared, void* stream,
                   void** arguments);
void simcuda_effects(int on);
int simcuda_value_follows(void);
void simcuda_expect_count(int on, long long count);
void* simcuda_last_stream(void);
void simcuda_forget_stream(void);
void simcuda_stream_number(void* stream, char* out, size_t room);
int simcuda_is_capturing(void* stream);
int simcuda_stream_device(void* stream);
int simcuda_occupancy(int block, size_t shared);
unsigned long long simcuda_kernel_count(void);

// the free part of this thread's stack, overwritten: what an operator leaves unset is the same in every run
void simcuda_paint(void);

// threads (of libsimcuda_threads.so)
void simcuda_at_thread_start(void (*function)(void));

// activity: what a profiler hears (of CUPTI's stand-in). Times of work are nanoseconds of CLOCK_MONOTONIC, and may lie ahead.
struct simcuda_work {
  char kind;             // K kernel, C copy, S fill, W wait of the host
  char from, to;         // of a copy, `to` also of a fill: D device, P pinned, H other memory of the host; of a wait, `to`
                         // is what for: D the device, S the stream
  unsigned correlation;  // of the call that enqueued it
  int device;
  unsigned stream, value;
  unsigned long long begin, end, bytes;
  const char* name;  // of a kernel, mangled; valid during the call
  unsigned grid[3], block[3], shared;
};
struct simcuda_listener {
  unsigned long long (*time)(void);
  void (*call)(const char* function, unsigned correlation, unsigned long long begin, unsigned long long end);
  void (*work)(const struct simcuda_work* work);
};
void simcuda_listen(const struct simcuda_listener* who);

// ledger
int simcuda_ledger_format(void);
void simcuda_ledger_reset(int keep_entries);
void simcuda_ledger_totals(unsigned long long out[10]);
size_t simcuda_ledger_entries(char* out, size_t room);
void simcuda_library_call(const char* name, const char* exact, const char* loose);
void simcuda_place(const void* address, char* exact, char* loose, size_t room);

#ifdef __cplusplus
}
#endif
