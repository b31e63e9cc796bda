"""Build sim_stable, one extension of torch_sim for many releases.

Call: pip install --no-build-isolation .
"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_sim.cpp_extension import NewDeviceCppExtension

setup(
    name="sim-stable",
    version="0.1.0",
    packages=[],
    ext_modules=[NewDeviceCppExtension("sim_stable", ["scale.cpp"], backend="torch_sim", stable_abi="2.10")],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
