// NVRTC: nothing is compiled. Inside an operator whose result the CPU computes (the jiterator's, mostly) a program is
// "compiled" to an image of no code, and what would have been compiled goes to the ledger as a digest of its source.
// Everywhere else compiling fails, with a log that says why: a kernel that nobody computes must not seem to work.
#include <nvrtc.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "../interface.h"

struct _nvrtcProgram {
  std::string source, image;
  std::map<std::string, std::string> lowered;  // name expressions are their own lowered names
};

namespace {

constexpr char kLog[] = "the simulated device compiles nothing";

uint64_t digest(const std::string& text) {  // FNV-1a, 64 bits
  uint64_t value = 1469598103934665603u;
  for (unsigned char c : text) value = (value ^ c) * 1099511628211u;
  return value;
}
nvrtcResult size_of(nvrtcProgram program, size_t* size) {
  *size = program->image.size() + 1;
  return program->image.empty() ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}
nvrtcResult image_of(nvrtcProgram program, char* out) {
  if (program->image.empty()) return NVRTC_ERROR_INVALID_PROGRAM;
  memcpy(out, program->image.c_str(), program->image.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))
API nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = SIMCUDA_CUDA_VERSION / 1000, *minor = SIMCUDA_CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}
API const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION: the simulated device compiles nothing";
}
API nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char*, int, const char* const*,
                                   const char* const*) {
  *out = new _nvrtcProgram{source, {}, {}};
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* name) {
  program->lowered[name] = name;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* name, const char** lowered) {
  auto found = program->lowered.find(name);
  if (found == program->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *lowered = found->second.c_str();
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (!simcuda_value_follows()) {
    simcuda_not_supported("nvrtcCompileProgram");
    return NVRTC_ERROR_COMPILATION;
  }
  std::string all = program->source;
  for (int i = 0; i < count; i++) all += std::string("\n") + options[i];
  char text[32];
  snprintf(text, sizeof text, "\"%016" PRIx64 "\"", digest(all));
  simcuda_library_call("nvrtcCompileProgram", text, text);
  program->image = std::string("simcuda: no code, source ") + text;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* size) {
  *size = sizeof kLog;
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  memcpy(log, kLog, sizeof kLog);
  return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) { return size_of(program, size); }
API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* out) { return image_of(program, out); }
API nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) { return size_of(program, size); }
API nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* out) { return image_of(program, out); }
