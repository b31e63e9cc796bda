"""The build toolkit of a PyTorch backend.

It is on top of upstream's ``tools.setup_helpers.cmake`` where its tree is at hand.

A backend's ``setup.py`` or PEP 517 hook says::

    from third_device.tools.wrapped_cmake import WrappedCMake

    project = WrappedCMake(source_dir, build_dir, install_prefix=prefix)
    project.configure({"TORCH_DIR": str(torch_dir)})
    project.build(on_status=Lines(project.limits))

Its CMake half is in ``cmake/``: ``InstalledTorch.cmake`` finds the PyTorch to build against, ``DeviceCompiler.cmake``
compiles what CMake has no language for. Parameters come from the environment (``python -m
third_device.tools.wrapped_cmake --help`` lists them), more of them from the project's ``wrapped_cmake.toml``. It runs
on the Pythons that PyTorch 2.6 supports, 3.9 and up, and needs no package beside setuptools, and tomli for that file
before Python 3.11.
"""

from .errors import WrappedCMakeError
from .jobs import JobLimits, plan_jobs
from .ninja import Edge, Result, Status, list_slowest, read_log, run_ninja
from .parameters import PARAMETERS, Parameter, Settings, help_text
from .progress import Lines
from .project import Project, read_project
from .wrapper import WrappedCMake

__all__ = [
    "Edge",
    "JobLimits",
    "Lines",
    "PARAMETERS",
    "Parameter",
    "Project",
    "Result",
    "Settings",
    "Status",
    "WrappedCMake",
    "WrappedCMakeError",
    "help_text",
    "plan_jobs",
    "read_log",
    "read_project",
    "run_ninja",
    "list_slowest",
]
