// Every thread of the process starts with the hook that the shadows set, so that each has their dispatch key.
// A library of its own without symbol versions: only then does it come before the C library's pthread_create.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

namespace {

std::atomic<void (*)()> hook{nullptr};

struct Start {
  void* (*function)(void*);
  void* argument;
};
void* run(void* p) {
  Start start = *(Start*)p;
  delete (Start*)p;
  if (auto h = hook.load()) h();
  return start.function(start.argument);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void simcuda_at_thread_start(void (*function)()) { hook = function; }

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                                     void* (*function)(void*), void* argument) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* real = (Create*)dlsym(RTLD_NEXT, "pthread_create");
  auto* start = new Start{function, argument};
  int error = real(thread, attributes, run, start);
  if (error) delete start;
  return error;
}
