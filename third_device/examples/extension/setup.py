"""Build sim_scale, an extension of torch_sim: pip install --no-build-isolation ."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_sim.cpp_extension import NewDeviceCppExtension

setup(
    name="sim-scale",
    version="0.1.0",
    packages=[],
    ext_modules=[NewDeviceCppExtension("sim_scale", ["scale.cpp"], backend="torch_sim")],
    cmdclass={"build_ext": BuildExtension},
)
