/* The driver interface: the one C header between the vendor-neutral layer and a device.
 *
 * A backend fills one table of functions and returns it from `third_device_driver()`. Everything PyTorch asks of a
 * backend that is not about one particular device (guards, caching allocators, stream pools, generators, fallback,
 * serialization, ...) is built in the layer over these functions and nothing else.
 *
 * Rules for every function:
 *  - it is thread-safe, and returns TD_OK or a status; after a failure `error_text()` on the same thread says more;
 *  - "enqueues" means: returns at once, the work runs in the order of its stream; work on different streams has no order
 *    but the one that events give;
 *  - a failure of enqueued work is reported by the next query or synchronize of its stream or device;
 *  - a device index is 0..count-1; TD_HOST stands for the host;
 *  - C++ exceptions never cross this boundary, but for those of a td_callback: the driver catches them, and the work has
 *    failed.
 */
#ifndef THIRD_DEVICE_DRIVER_H
#define THIRD_DEVICE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a member of the table changes meaning or place. */
#define TD_DRIVER_ABI 1u
#define TD_HOST (-1)
/* Marks what libtorch_<name>.so offers to its Python module and to extensions of the backend; all else is hidden. */
#define TD_API __attribute__((visibility("default")))

typedef enum td_status {
  TD_OK = 0,
  TD_NOT_READY = 1,     /* query: work is still pending; no error */
  TD_OUT_OF_MEMORY = 2, /* the caller may release cached memory and try again */
  TD_INVALID = 3,       /* an argument is wrong */
  TD_NO_DRIVER = 4,     /* no device library on this machine: PyTorch then sees zero devices */
  TD_DEVICE_LOST = 5,   /* the device is gone until the process restarts */
  TD_FAILED = 6         /* anything else, e.g. an exception inside a kernel */
} td_status;

typedef enum td_memory { TD_MEMORY_UNKNOWN = 0, TD_MEMORY_HOST_PINNED = 1, TD_MEMORY_DEVICE = 2 } td_memory;

typedef struct td_stream_s* td_stream;
typedef struct td_event_s* td_event;
typedef struct td_graph_s* td_graph;
typedef td_status (*td_callback)(void* argument);

typedef struct td_properties {
  char name[64];
  uint64_t total_memory; /* bytes */
  int32_t major, minor;  /* version of the architecture */
  int32_t units;         /* multiprocessors, cores, clusters: whatever runs in parallel */
} td_properties;

/* What a device did, for torch.profiler. Times are nanoseconds of the host's system clock (CLOCK_REALTIME). */
typedef enum td_work { TD_WORK_KERNEL = 0, TD_WORK_COPY = 1, TD_WORK_SET = 2 } td_work;

typedef struct td_record {
  td_work kind;
  const char* name;   /* valid during the call; NULL: the layer writes the operator's */
  int32_t device;
  int32_t stream;     /* tells the streams of a device apart */
  uint64_t bytes;     /* copied or set */
  uint64_t tag;       /* of the thread when it enqueued the work */
  int32_t thread;     /* that enqueued it, as gettid() has it */
  int64_t called, returned; /* when it was enqueued, on the host; both 0: unknown */
  int64_t began, ended;     /* when the device worked at it */
} td_record;
typedef void (*td_record_sink)(void* argument, const td_record* record);

typedef struct td_driver {
  uint32_t abi; /* TD_DRIVER_ABI */

  /* errors: text of the last failure on this thread, valid until the next call; never NULL */
  const char* (*error_text)(void);

  /* devices */
  td_status (*init)(void); /* called once per process, before anything but error_text and device_count */
  td_status (*device_count)(int* count);
  td_status (*device_set)(int device); /* the thread's current device, for drivers that have one; may say DEVICE_LOST */
  td_status (*device_properties)(int device, td_properties* properties);
  td_status (*device_synchronize)(int device); /* waits for all streams of the device, of a lost one too */

  /* memory; addresses are device addresses, which the host must not dereference */
  td_status (*memory_info)(int device, size_t* free_bytes, size_t* total_bytes);
  td_status (*memory_alloc)(int device, size_t bytes, void** address); /* aligned to 512 bytes or more */
  td_status (*memory_free)(int device, void* address);                 /* waits for nothing: the layer did */
  td_status (*memory_owner)(const void* address, td_memory* kind, int* device); /* also inside an allocation */
  td_status (*memory_set)(void* address, int value, size_t bytes, td_stream stream); /* enqueues */

  /* enqueues a copy of contiguous bytes; either side may be TD_HOST; host memory need not be pinned */
  td_status (*copy)(void* to, int to_device, const void* from, int from_device, size_t bytes, td_stream stream);

  /* page-locked host memory that every device can copy from and to without staging */
  td_status (*host_alloc)(size_t bytes, void** address);
  td_status (*host_free)(void* address);

  /* streams; a smaller number is a higher priority */
  td_status (*stream_priorities)(int* lowest, int* highest);
  td_status (*stream_create)(int device, int priority, td_stream* stream);
  td_status (*stream_destroy)(td_stream stream); /* after its work is done */
  td_status (*stream_query)(td_stream stream);   /* TD_OK: idle, TD_NOT_READY: busy */
  td_status (*stream_synchronize)(td_stream stream);
  td_status (*stream_wait)(td_stream stream, td_event event); /* enqueues; any device's event */
  td_status (*stream_call)(td_stream stream, td_callback function, void* argument); /* enqueues a host function */

  /* events; an event that was never recorded counts as done */
  td_status (*event_create)(int device, int timing, td_event* event);
  td_status (*event_destroy)(td_event event); /* allowed while work still refers to it */
  td_status (*event_record)(td_event event, td_stream stream);
  td_status (*event_query)(td_event event);
  td_status (*event_synchronize)(td_event event);
  td_status (*event_elapsed)(td_event start, td_event end, double* milliseconds);

  /* a knob of this driver, e.g. for fault injection: TD_INVALID where unknown. Not used by the layer itself. */
  td_status (*control)(const char* key, long long value);

  /* From here on a driver may leave members NULL: it then has no such thing, and nothing else is lost.
   *
   * records for torch.profiler's ProfilerActivity.PrivateUse1; all three or none */
  td_status (*trace_start)(void);       /* work that is enqueued from now on is recorded */
  td_status (*trace_stop)(td_record_sink sink, void* argument); /* hands over what has ended, forgets it, and records no more */
  td_status (*trace_tag)(uint64_t tag); /* of all that this thread enqueues from now on; 0: none */

  /* names for the vendor's own tools, as NVTX has them for CUDA's; ranges are a stack for each thread */
  void (*range_push)(const char* name);
  void (*range_pop)(void);
  void (*mark)(const char* name);

  /* graphs: work that is enqueued on a stream between begin and end does not run, it is kept, and runs at each launch; all
   * five or none.
   *
   * A stream that waits on an event of a stream that is captured is captured with it; the first one waits for it in its turn
   * before the end. What waits for the device, or asks about it, is an error there and ends the capture: to query or
   * synchronize such a stream, its events or its device, and copies whose host memory is not pinned. A td_callback is called
   * at each launch, with the same argument. Memory is allocated and freed as ever. */
  td_status (*graph_begin)(td_stream stream);
  td_status (*graph_end)(td_stream stream, td_graph* graph); /* ends the capture also where it fails; *graph is then NULL */
  td_status (*graph_launch)(td_graph graph, td_stream stream); /* enqueues; any stream of the device */
  td_status (*graph_destroy)(td_graph graph);                  /* after its launches are done */
  td_status (*graph_captures)(td_stream stream, int* captures); /* whether what is enqueued there is kept now */
} td_driver;

/* What a backend defines. The table must stay valid and unchanged for the life of the process. */
const td_driver* third_device_driver(void);

#ifdef __cplusplus
}
#endif
#endif
