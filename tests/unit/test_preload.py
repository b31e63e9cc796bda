"""Backends load before ``torch._C`` and their bindings come right after, each step seen in a real interpreter.

The torch of these examples is four small files with the two calls that the series puts into ``torch/__init__.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project

OWN_FILES = find_project() / "third_device" / "added_to_core" / "torch" / "_decoupled"

TORCH = """\
from torch._decoupled import preload as _preload
_preload.load_libraries()
import torch._C
_preload.fill_bindings()
from torch import cuda
"""

CORE = """\
import sys, types
order = list(sys.modules.get("trace", types.SimpleNamespace(seen=[])).seen)
_has_cuda = False
_aoti = types.ModuleType("torch._C._aoti")
_aoti.CpuRunner = "cpu"
"""

CUDA = """\
try:
    from torch.cuda import _CUDAC
except ImportError:
    pass
"""

BINDINGS = """\
import types
import torch._C
_has_cuda = True
def _cuda_getDeviceCount(): return 0
def _cuda_getCompiledVersion(): return 12040
_aoti = types.ModuleType(__name__ + "._aoti")
_aoti.CudaRunner = "cuda"
_cudart = types.ModuleType(__name__ + "._cudart")
"""

PRELOAD = """\
import sys, types
trace = sys.modules.setdefault("trace", types.SimpleNamespace(seen=[]))
def preload():
    assert "torch._C" not in sys.modules
    trace.seen.append({name!r})
    return {returns!r}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with that torch in it."""
    torch = tmp_path / "torch"
    (torch / "cuda").mkdir(parents=True)
    shutil.copytree(OWN_FILES, torch / "_decoupled", ignore=shutil.ignore_patterns("cpp_extension.py", "__pycache__"))
    (torch / "__init__.py").write_text(TORCH)
    (torch / "_C.py").write_text(CORE)
    (torch / "version.py").write_text("cuda = None\n")
    (torch / "cuda" / "__init__.py").write_text(CUDA)
    return tmp_path


def add_backend(site: Path, name: str, *, bindings: str | None = BINDINGS, preload: str | None = None) -> None:
    """Install a backend package and its entry point metadata."""
    package = site / f"torch_{name}"
    package.mkdir()
    (package / "__init__.py").touch()
    returns = f"torch_{name}._bindings" if bindings is not None else None
    (package / "_preload.py").write_text(preload or PRELOAD.format(name=name, returns=returns))
    if bindings is not None:
        (package / "_bindings.py").write_text(bindings)
    info = site / f"torch_{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch_{name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[torch.backends.preload]\n{name} = torch_{name}._preload:preload\n")


def run(site: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(site), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=variables, cwd=site, check=False
    )


def test_without_backends_torch_is_what_it_was(site: Path) -> None:
    done = run(
        site,
        "import torch, torch.version; print(torch._C._has_cuda, torch.version.cuda, hasattr(torch.cuda, '_CUDAC'))",
    )
    assert done.stdout == "False None False\n", done.stderr


def test_libraries_come_before_the_core_and_bindings_after(site: Path) -> None:
    add_backend(site, "two", bindings=None)
    add_backend(site, "one")
    done = run(site, "import torch; print(torch._C.order, torch._C._has_cuda)")
    assert done.stdout == "['one', 'two'] True\n", done.stderr  # by name, whatever the order of folders


def test_bindings_are_found_under_every_name_that_code_uses(site: Path) -> None:
    add_backend(site, "cuda")
    code = (
        "import torch, torch_cuda._bindings as bindings\n"
        "from torch._C import _cuda_getDeviceCount, _cudart\n"
        "from torch.cuda._CUDAC import _cuda_getDeviceCount as again\n"
        "assert again is _cuda_getDeviceCount and torch.cuda._CUDAC is bindings\n"
        "print(torch.version.cuda, sorted(n for n in vars(torch._C._aoti) if n.endswith('Runner')))\n"
    )
    done = run(site, code)
    assert done.stdout == "12.4 ['CpuRunner', 'CudaRunner']\n", done.stderr  # a sub-module gains, it is not replaced


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("_torch_version = {'hip': '6.4.43483'}\n", "None 6.4.43483"),
        ("_torch_version = {'cuda': '11.8', 'hip': None}\n", "11.8 None"),
        ("_torch_version = {}\n", "None None"),
    ],
    ids=["ROCm", "CUDA", "a vendor that torch.version has no name for"],
)
def test_a_backend_on_the_cuda_key_says_what_torch_version_says(site: Path, said: str, told: str) -> None:
    """ROCm numbers its versions otherwise: 6.4.0 is 60400, which as a number of CUDA's reads 60.40."""
    (site / "torch/version.py").write_text("cuda = None\nhip = None\n")
    add_backend(site, "hip", bindings=BINDINGS.replace("12040", "60400") + said)
    done = run(site, "import torch, torch.version; print(torch.version.cuda, torch.version.hip)")
    assert done.stdout == f"{told}\n", done.stderr


def test_classes_and_functions_say_that_they_are_the_cores(site: Path) -> None:
    """As in a torch built in one piece: an annotation reads ``torch._C._Properties``, a pickle finds it there."""
    more = "class _Properties: pass\nclass _Nested: pass\n"
    more += "_Nested.__module__ = __name__ + '._cudart'\n_cudart._Nested = _Nested\n"
    add_backend(site, "cuda", bindings=BINDINGS + more)
    code = (
        "import torch\n"
        "from torch._C import _Properties, _cuda_getDeviceCount, _cudart\n"
        "import torch._C._cudart\n"
        "print(_Properties.__module__, _cuda_getDeviceCount.__module__, _cudart._Nested.__module__)\n"
    )
    done = run(site, code)
    assert done.stdout == "torch._C torch._C torch._C._cudart\n", done.stderr


def test_the_opt_out_leaves_backends_alone(site: Path) -> None:
    add_backend(site, "cuda", preload="raise SystemExit('loaded')")
    done = run(site, "import torch; print(torch._C._has_cuda)", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("preload", "words"),
    [
        ("raise OSError('libcudart.so.12: cannot open')", "Failed to load the backend 'cuda'"),
        ("def preload(): return 'torch_cuda.gone'", "Failed to import the bindings of the backend 'cuda'"),
    ],
)
def test_a_broken_backend_is_named_with_its_cause_and_the_way_out(site: Path, preload: str, words: str) -> None:
    add_backend(site, "cuda", preload=preload)
    done = run(site, "import torch")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert words in last
    assert "Set TORCH_DEVICE_BACKEND_AUTOLOAD=0" in last
    assert "cannot open" in last or "No module named 'torch_cuda.gone'" in last


def test_a_finder_of_the_old_kind_is_passed_over(site: Path) -> None:
    """As that of six 1.15, which Python before 3.12 asked by find_module: the error spoke of its missing method."""
    add_backend(site, "one")
    shutil.rmtree(site / "torch_one")
    old = "type('Old', (), {'find_module': lambda *asked: None})()"
    done = run(site, f"import sys; sys.meta_path.append({old}); import torch")
    assert "No module named 'torch_one'" in done.stderr and "find_spec" not in done.stderr


def test_two_backends_with_cuda_bindings_are_refused(site: Path) -> None:
    add_backend(site, "first")
    add_backend(site, "second")
    done = run(site, "import torch")
    assert "torch_first._bindings and torch_second._bindings" in done.stderr


def test_a_backend_on_its_own_key_stands_beside_cuda(site: Path) -> None:
    add_backend(site, "cuda")
    add_backend(site, "sim", bindings="_sim_count = 2\n")
    done = run(site, "import torch; print(torch._C._sim_count, torch.cuda._CUDAC.__name__)")
    assert done.stdout == "2 torch_cuda._bindings\n", done.stderr


HOSTILE = "raise SystemExit('ran what lies in the working directory')\n"
STARTS = {
    "-c": ["-c", "import torch; print(torch._C._has_cuda)"],
    "-m": ["-m", "program"],
    "a moved program": ["-c", "import os, sys; sys.path.insert(0, '.'); import torch; print(torch._C._has_cuda)"],
}


def start(site: Path, here: Path, words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Python as somebody starts it in the folder ``here``, with what is in ``site`` installed."""
    here.mkdir(exist_ok=True)
    (here / "program.py").write_text("import torch; print(torch._C._has_cuda)")
    variables = {**os.environ, "PYTHONPATH": str(site), **environment}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=variables, cwd=here, check=False
    )


@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("path", ["{site}", ":{site}", ".:{site}", "{site}:"])
def test_a_backend_in_the_working_directory_is_none(site: Path, tmp_path: Path, words: list[str], path: str) -> None:
    """Whoever unpacks an archive and works in it has installed nothing."""
    here = tmp_path / "here"
    here.mkdir()
    add_backend(here, "planted", preload=HOSTILE)
    done = start(site, here, words, PYTHONPATH=path.format(site=site))
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS)
def test_a_package_in_the_working_directory_does_not_stand_in_for_a_backend(
    site: Path, tmp_path: Path, words: list[str]
) -> None:
    add_backend(site, "cuda")
    here = tmp_path / "here"
    (here / "torch_cuda").mkdir(parents=True)
    for name in ("__init__", "_preload", "_bindings"):
        (here / "torch_cuda" / f"{name}.py").write_text(HOSTILE)
    done = start(site, here, words)
    assert done.stdout == "True\n", done.stderr


def test_a_backend_in_a_folder_that_pythonpath_names_is_found(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    add_backend(other, "cuda")
    done = start(site, tmp_path / "here", STARTS["-c"], PYTHONPATH=f"{other}:{site}")
    assert done.stdout == "True\n", done.stderr


def test_a_backend_is_found_in_pythons_own_folder_and_where_its_pth_files_lead(site: Path, tmp_path: Path) -> None:
    """A virtual environment over another's torch; a project installed with ``pip install -e`` in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (folder,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    (folder / "torch.pth").write_text(f"import sys\n{site}\n")
    python = tmp_path / "venv/bin/python"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def said() -> str:
        done = subprocess.run([python, *STARTS["-c"]], capture_output=True, text=True, env=clean, cwd=tmp_path)
        return done.stdout + done.stderr

    assert said() == "False\n"
    add_backend(folder, "cuda")
    assert said() == "True\n"
    project = tmp_path / "project"
    project.mkdir()
    (folder / "torch_cuda").rename(project / "torch_cuda")
    (folder / "__editable__.torch_cuda.pth").write_text(f"{project}\n")
    assert said() == "True\n"


def test_of_two_installed_the_first_counts(site: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    add_backend(tmp_path / "other", "cuda", bindings="_has_cuda = 'first'\n")
    add_backend(site, "cuda")
    done = start(site, tmp_path / "here", STARTS["-c"], PYTHONPATH=f"{tmp_path / 'other'}:{site}")
    assert done.stdout == "first\n", done.stderr
