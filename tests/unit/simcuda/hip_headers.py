"""HIP's headers as far as the stand-ins include them, made here: the members that they set, in an order of ours."""

from __future__ import annotations

from pathlib import Path

RUNTIME = """
#pragma once
#include <stddef.h>
typedef enum { hipSuccess = 0, hipErrorInvalidDevice = 101 } hipError_t;
typedef enum { hipMemcpyHostToDevice = 1 } hipMemcpyKind;
typedef enum { hipMemoryTypeHost = 1 } hipMemoryType;
typedef enum { hipStreamCaptureStatusNone = 0 } hipStreamCaptureStatus;
typedef struct ihipStream_t* hipStream_t;
typedef struct ihipGraph* hipGraph_t;
typedef struct hipGraphNode* hipGraphNode_t;
typedef struct hipGraphExec* hipGraphExec_t;
typedef struct ihipModuleSymbol_t* hipFunction_t;
typedef struct { char bytes[16]; } hipUUID;
typedef struct {
  char name[256]; hipUUID uuid; int warpSize, major, minor, multiProcessorCount, maxThreadsPerBlock, maxThreadsDim[3];
  int maxGridSize[3], maxThreadsPerMultiProcessor, regsPerBlock, regsPerMultiprocessor, l2CacheSize, clockRate;
  int memoryClockRate, memoryBusWidth, canMapHostMemory, concurrentKernels, cooperativeLaunch, unifiedAddressing;
  int managedMemory, pciBusID;
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, maxSharedMemoryPerMultiProcessor, totalConstMem;
  char gcnArchName[256];
} hipDeviceProp_t;
typedef struct { int marker; hipMemoryType type; int device; void *devicePointer, *hostPointer; } hipPointerAttribute_t;
#define hipGetDeviceProperties hipGetDevicePropertiesR0600
#include "hip_version.h"
"""
HEADERS = {
    "hip_runtime_api.h": RUNTIME,
    "hiprtc.h": "#pragma once\ntypedef enum { HIPRTC_SUCCESS = 0 } hiprtcResult;\n",
    "hip_version.h": "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n#define HIP_VERSION 60443484\n",
}


def write_headers(folder: Path) -> Path:
    """Write them into ``folder``, as an include folder of ROCm has them."""
    (folder / "hip").mkdir(parents=True)
    for name, text in HEADERS.items():
        (folder / "hip" / name).write_text(text)
    return folder
