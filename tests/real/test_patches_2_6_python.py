"""The patched Python files laid over a stock CPU torch 2.6.0: it imports, and says "no CUDA" as the stock one does.

Needs a Debian root with trixie's ``python3-torch`` unpacked below ``/opt/stock`` (the build's layer "stock" makes one):
``DECOUPLE_STOCK_ROOT``, or the first such root in the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.real.test_patches_2_6 import OVERLAY, decoupled_packages, series_patches
from tests.support.series import ENVIRONMENT, git

pytestmark = pytest.mark.real

STOCK = Path("opt/stock/usr/lib/python3/dist-packages")

FACTS = """\
import torch, torch.version
print(torch.cuda.is_available(), torch.cuda._is_compiled(), torch.version.cuda, torch.backends.cuda.is_built())
print(torch.backends.cudnn.is_available(), torch.cuda.device_count(), torch.distributed.is_nccl_available())
for build in (lambda: torch.cuda.init(), lambda: torch.empty(1, device="cuda")):
    try:
        build()
    except Exception as error:
        print(type(error).__name__, error)
print(sorted(name for name in dir(torch.cuda) if not name.startswith("__")))
"""


def stock_root() -> Path:
    named = os.environ.get("DECOUPLE_STOCK_ROOT")
    roots = [Path(named)] if named else sorted((find_cache() / "rootfs").glob("*/root"))
    for root in roots:
        if (root / STOCK / "torch").is_dir() and os.geteuid() == 0:
            return root
    pytest.skip("no Debian root with a stock torch in /opt/stock, or not root; set DECOUPLE_STOCK_ROOT")


@pytest.fixture(scope="module")
def root() -> Path:
    return stock_root()


@pytest.fixture(scope="module")
def patched(root: Path) -> Iterator[Path]:
    """A folder inside the root, to be put in front of ``PYTHONPATH``: stock torch with our Python files."""
    manifest = load_release(find_project(), "2.6")
    baseline = ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=True)
    work = Path(tempfile.mkdtemp(prefix="decouple-python-", dir=root / "tmp"))
    try:
        git(work, "clone", "-q", "--shared", "--no-checkout", str(baseline.repo), str(work / "src"))
        source = work / "src"
        git(source, "checkout", "-q", "--detach", baseline.commit)
        for patch in series_patches():
            subprocess.run(["git", "apply", "--index", str(patch)], cwd=source, env=ENVIRONMENT, check=True)
        site = work / "site"
        shutil.copytree(root / STOCK, site, symlinks=True)
        relink(site, root)
        packages = decoupled_packages(source / "setup.py")
        for name in set(packages) - {"torch._decoupled"}:
            shutil.rmtree(site / name.replace(".", "/"))
        lay(source / "torch", site / "torch")
        for name, folder in packages.items():
            start = OVERLAY.parent if name == "torch._decoupled" else source
            lay(start / folder, site / name.replace(".", "/"))
        shutil.rmtree(source)
        yield site
    finally:
        shutil.rmtree(work, ignore_errors=True)


def lay(source: Path, target: Path) -> None:
    """Copy Python files; the generated ``version.py`` stays the installed one."""
    for path in source.rglob("*.py"):
        to = target / path.relative_to(source)
        if not (path.name == "version.py" and to.exists()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def relink(site: Path, root: Path) -> None:
    """Debian's package links its libraries relative to where it is installed: make that absolute inside the root."""
    for link in [path for path in (site / "torch").rglob("*") if path.is_symlink()]:
        inside = Path("/") / STOCK / link.parent.relative_to(site) / link.readlink()
        link.unlink()
        link.symlink_to(os.path.normpath(inside))


def python(root: Path, code: str, packages: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    extra = os.environ.get("DECOUPLE_STOCK_LIBRARIES", "")
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LD_LIBRARY_PATH": ":".join(["/opt/stock/usr/lib/x86_64-linux-gnu", extra]),
        "PYTHONPATH": f"/{packages.relative_to(root)}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    # /proc in a mount namespace of its own: without it cpuinfo and UCX complain on standard output
    inside = 'mount -t proc proc "$1/proc" && exec chroot "$1" python3 -c "$2"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", str(root), code]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_the_patched_files_import_with_everything_that_uses_cuda(root: Path, patched: Path) -> None:
    code = (
        "import torch, torch._dynamo, torch._inductor, torch._inductor.compile_fx, torch.testing, torch.distributed\n"
        "import torch._dynamo.device_interface as interface\n"
        "assert interface.get_cuda_stream is None\n"
        "import torch.backends.cuda, torch.backends.cudnn.rnn, torch.backends.cusparselt, torch.cuda.amp\n"
        "from torch.utils.cpp_extension import NewDeviceCppExtension, load_new_device, include_paths\n"
        "assert not hasattr(torch.cuda, '_CUDAC')\n"
        "print(torch._decoupled.__file__)\n"
    )
    done = python(root, code, patched)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(f"/{patched.relative_to(root)}/torch/_decoupled/")


def test_without_torch_cuda_it_answers_like_the_stock_build(root: Path, patched: Path) -> None:
    stock = Path(tempfile.mkdtemp(prefix="decouple-stock-", dir=root / "tmp"))
    try:
        shutil.copytree(root / STOCK, stock / "site", symlinks=True)
        relink(stock / "site", root)
        expected = python(root, FACTS, stock / "site")
        seen = python(root, FACTS, patched)
    finally:
        shutil.rmtree(stock)
    assert expected.returncode == 0, expected.stderr[-2000:]
    assert expected.stdout.startswith("False False None False\n")
    assert seen.stdout == expected.stdout


def test_a_backend_that_fails_to_load_is_named_and_can_be_left_out(root: Path, patched: Path) -> None:
    info = patched / "torch_gone-1.dist-info"
    info.mkdir()
    try:
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_gone\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[torch.backends.preload]\ngone = torch_gone:preload\n")
        broken = python(root, "import torch", patched)
        assert "the backend 'gone'" in broken.stderr.strip().splitlines()[-1]
        done = python(root, "import torch; print(torch.ones(2).sum())", patched, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        assert done.stdout == "tensor(2.)\n", done.stderr
    finally:
        shutil.rmtree(info)
