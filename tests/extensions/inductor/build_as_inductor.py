"""The compile steps of Inductor for CUDA, without a GPU: C++ wrapper, AOTInductor's library, the CUTLASS back end's.

Each is Inductor's own command, on a small source that needs CUDA's headers and libraries. What came of it is loaded.
"""

import ctypes
import os
import subprocess
from pathlib import Path
from unittest import mock

from torch._inductor import codecache, cpp_builder

HOST = """
#include <ATen/cuda/CUDAConfig.h>
#include <c10/cuda/CUDAFunctions.h>
extern "C" int said() { return c10::cuda::device_count(); }
"""
DEVICE = """
#include <cuda_runtime.h>
__global__ void nothing() {}
extern "C" __attribute__((visibility("default"))) int said() { nothing<<<1, 1>>>(); return cudaGetLastError(); }
"""

# Their commands name libcuda, which comes with a driver; without one the toolkit's stub is linked.
os.environ["LIBRARY_PATH"] = f"{os.environ['CUDA_HOME']}/lib64/stubs"
built = Path("built").resolve()
built.mkdir(exist_ok=True)
(built / "host.cpp").write_text(HOST)
(built / "device.cu").write_text(DEVICE)

made = []
for name, aot in (("wrapper", False), ("aoti", True)):
    options = cpp_builder.CppTorchDeviceOptions(device_type="cuda", aot_mode=aot, include_pytorch=True)
    builder = cpp_builder.CppBuilder(name, [str(built / "host.cpp")], options, str(built))
    builder.build()
    made.append(builder.get_target_file_path())
with mock.patch.object(codecache.cuda_env, "get_cuda_arch", lambda: "90"):  # which asks the GPU
    made.append(str(built / "cutlass.so"))
    command = codecache.cuda_compile_command([str(built / "device.cu")], made[-1], "so")
subprocess.run(command.split(), check=True)
print("loaded", *(f"{Path(path).name} {ctypes.CDLL(path).said()}" for path in made))
