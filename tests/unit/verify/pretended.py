"""A folder that imports as torch and answers all that `decouple parity` asks."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.files import write_files

_INIT = """
from . import _C, version, __config__, cuda, backends, distributed
__version__ = version.__version__
Generator = None
class Tensor:
    def add(self, other, alpha=1): ...
def ones(*size, device=None):
    raise RuntimeError("Found no NVIDIA driver")
"""
_C = """
import types
has_lapack = True
_GLIBCXX_USE_CXX11_ABI = False
class DispatchKey:
    __members__ = {"CPU": 1, "CUDA": 2, "Undefined": 0}
class _CudaStreamBase:
    def query(self): ...
class Schema:
    def __init__(self, text):
        self.name, self.overload_name, self.text = text.partition("(")[0], "", text
    def __str__(self):
        return self.text
def _dispatch_get_registrations_for_dispatch_key(key):
    if key == "Undefined":
        raise RuntimeError("no kernels for this key")
    return ["aten::add", "aten::mm"]
def _jit_get_all_schemas():
    return [Schema("aten::add(Tensor a) -> Tensor")]
def _show_config():
    settings = "BLAS_INFO=mkl, CXX_FLAGS= -O2 -fPIC, USE_CUDA=ON, "
    return f"PyTorch built with:\\n  - GCC 9.3\\n  - Build settings: {settings}\\n"
def _cuda_getArchFlags():
    return "sm_90"
def _cuda_getCompiledVersion():
    return 12040
"""
_PROPERTIES = """
import sys, types
def version(): return 90100
class PropModule(types.ModuleType):
    def __init__(self, m, name):
        super().__init__(name)
        self.m = m
    def __getattr__(self, name):
        return getattr(self.m, name)
sys.modules[__name__] = PropModule(sys.modules[__name__], __name__)
"""
_FILES = {
    "torch/__init__.py": _INIT,
    "torch/_C.py": _C,
    "torch/version.py": "__version__ = '2.6.0+cu124'\ncuda = '12.4'\ndebug = False\n",
    "torch/__config__.py": "from ._C import _show_config as show\ndef parallel_info(): return 'ATen:\\n'\n",
    "torch/cuda/__init__.py": "from . import nccl\ndef is_available(): return False\ndef get_arch_list(): return []\n"
    "def device_count(): return 0\nclass Stream: ...\n",
    "torch/cuda/nccl.py": "def version(): return (2, 21, 5)\n",
    "torch/backends/__init__.py": "from . import cuda, cudnn\n",
    "torch/backends/cuda.py": "def is_built(): return True\n",
    "torch/backends/cudnn.py": _PROPERTIES,
    "torch/distributed.py": "def is_nccl_available(): return True\n",
    "torch/nn.py": "def relu(input, inplace=False): ...\nclass Linear:\n    def forward(self, input): ...\n",
    "torch/utils/__init__.py": "",
    "torch/utils/collect_env.py": "import types\ndef get_env_info():\n"
    "    return types.SimpleNamespace(torch_version='2.6')\n",
    "torch/include/ATen/ATen.h": "#pragma once\n",
    "torch/bin/torch_shm_manager": "#!/bin/sh\n",
    "torch-2.6.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n"
    'Requires-Dist: a (==1) ; python_version >= "3.9"\n',
    "torch-2.6.0.dist-info/entry_points.txt": "[console_scripts]\ntorchrun = torch.distributed.run:main\n",
    "torch-2.6.0.dist-info/LICENSE": "do what you like\n",
}


def write(folder: Path) -> Path:
    """The Python of a pretended torch below ``folder``, whose packages lie in ``folder/site``."""
    write_files(folder / "site", _FILES)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/site exec {sys.executable} -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


def plant(python: Path, name: str, old: str, new: str) -> None:
    """Change a file of one."""
    path = python.parent / "site" / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
