// Calls of libraries in the ledger, and what a stand-in that computes nothing writes through its pointers.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include "../interface.h"

struct CUstream_st;   // what cudaStream_t points to
struct ihipStream_t;  // what hipStream_t does

namespace simlib {

inline bool on_host(const void* address) {
  void* base;
  size_t size;
  int device;
  return address && simcuda_address(address, &base, &size, &device) != 2;
}

// Collects the arguments; the ledger gets them when the call ends.
class Call {
 public:
  explicit Call(const char* name) : name_(name) {}
  ~Call() { simcuda_library_call(name_, exact_.c_str(), loose_.c_str()); }
  Call(const Call&) = delete;

  template <class T>
  Call& operator<<(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      add(std::to_string(static_cast<long long>(value)));
    } else if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
      add(std::to_string(value));
    } else if constexpr (std::is_pointer_v<T>) {
      using Target = std::remove_cv_t<std::remove_pointer_t<T>>;
      if constexpr (std::is_function_v<Target>) {
        add("\"function\"");
      } else if constexpr (std::is_same_v<Target, CUstream_st> || std::is_same_v<Target, ihipStream_t>) {
        char text[64];
        simcuda_stream_number((void*)value, text, sizeof text);
        add(text);
      } else {
        char exact[64], loose[64];
        simcuda_place((const void*)value, exact, loose, sizeof exact);
        add(exact, loose);
      }
    } else {
      add("\"value\"");
    }
    return *this;
  }

 private:
  void add(const std::string& text) { add(text, text); }
  void add(const std::string& exact, const std::string& loose) {
    const char* comma = exact_.empty() ? "" : ",";
    exact_ += comma + exact;
    loose_ += comma + loose;
  }
  const char* name_;
  std::string exact_, loose_;
};

// What a function returns that has nothing to say: the status, or an empty value. A text is one that std::string takes.
template <class T>
T answer(int status) {
  if constexpr (std::is_enum_v<T> || std::is_integral_v<T>)
    return T(status);
  else if constexpr (std::is_same_v<T, const char*>)
    return "";
  else
    return T{};
}

// An object of its own behind a handle; 512 zero bytes, more than any stand-in keeps.
template <class T>
void make(T* out) {
  if constexpr (std::is_pointer_v<T>)
    if (out) *out = T(calloc(1, 512));
}
template <class T, class V>
void put(T* out, V value) {
  if (on_host(out)) *out = T(value);
}

// One structure of which nothing is said.
template <class T>
void clear(T* out) {
  if (on_host(out)) *out = T{};
}

// How it went: in memory of the device for each of `count` matrices, in the host's for all of them.
inline void went_well(int* info, long long count = 1) {
  if (on_host(info))
    *info = 0;
  else if (info && count > 0)
    memset(info, 0, size_t(count) * sizeof(int));
}

}  // namespace simlib
