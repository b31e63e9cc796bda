"""A third-party project as its author would write it: nothing here knows that CUDA comes in a wheel of its own."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="decouple-saxpy",
    version="1.0",
    ext_modules=[CUDAExtension("decouple_saxpy", ["saxpy.cpp", "saxpy_kernel.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
