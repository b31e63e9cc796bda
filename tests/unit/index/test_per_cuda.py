"""An index per CUDA beside the one for all, over HTTP, with small real wheels: what pip and uv take from each."""

from __future__ import annotations

import shlex
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.build.wheel_pair import pair_wheels
from decouple.cli import main
from decouple.index import site
from tests.support.server import serving
from tests.unit.index.wheels import installed, make_environment, make_pair, make_wheel

CORE = "2.6.0+decoupled"
Run = Callable[..., subprocess.CompletedProcess[str]]


def publish(folder: Path, cuda: str) -> None:
    """The wheels of one CUDA, as a build, `split` and `pair` leave them."""
    label = "cu" + cuda.replace(".", "")
    core = make_wheel(folder, "torch", CORE, extra_members={"torch/version.py": f"__version__ = '{CORE}'\n".encode()})
    make_wheel(folder, "torch-cuda-libraries", f"2.6.0+{label}", cuda=cuda)
    pins = (f"torch=={CORE}", f"torch-cuda-libraries==2.6.0+{label}")
    bindings = make_wheel(folder, "torch-cuda", f"2.6.0+{label}", requires=pins, cuda=cuda)
    pair_wheels(core, bindings, folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site with CUDA 11.8 and 12.4."""
    folder = tmp_path_factory.mktemp("site")
    for cuda in ("11.8", "12.4"):
        publish(folder / "dist", cuda)
    site.build_site(folder / "dist", folder / "site")
    assert main(["index", "check", str(folder / "site")]) == 0
    with serving(folder / "site") as url:
        yield url


@pytest.fixture(params=["pip", "uv"])
def install(request: pytest.FixtureRequest, tmp_path: Path, served: str) -> Iterator[Run]:
    """Installs from an index of the site, by pip and by uv, into one fresh environment."""
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env/bin/python")

    def run(index: str, *words: str) -> subprocess.CompletedProcess[str]:
        if request.param == "pip":
            command = [sys.executable, "-m", "pip", "--python", python, "install"]
        else:
            command = [sys.executable, "-m", "uv", "pip", "install", "--python", python]
        return subprocess.run(
            [*command, "--no-cache-dir", "--index-url", f"{served}/{index}/", *words],
            capture_output=True,
            text=True,
            env=make_environment(),
        )

    yield run


def test_torch_of_a_cuda_index_brings_that_cuda(install: Run, tmp_path: Path) -> None:
    for label in ("cu118", "cu124", "cu118"):  # there, up, and down again, one command each
        done = install(f"{label}/simple", "--upgrade", "--force-reinstall", "torch")
        assert done.returncode == 0, done.stderr
        assert installed(tmp_path) == {
            "torch": f"2.6.0+{label}",
            "torch_cuda": f"2.6.0+{label}.paired",
            "torch_cuda_libraries": f"2.6.0+{label}",
        }
        [version] = tmp_path.glob("env/lib/python*/site-packages/torch/version.py")
        assert f"'2.6.0+{label}'" in version.read_text()


def test_the_cpu_index_and_the_one_for_all_have_the_bare_core(install: Run, tmp_path: Path) -> None:
    for index in ("cpu/simple", "simple"):
        assert install(index, "torch").returncode == 0
        assert installed(tmp_path) == {"torch": CORE}
    refused = install("cpu/simple", "torch-cuda")
    assert refused.returncode and "torch-cuda" in refused.stderr


def test_one_bare_core_serves_every_cuda(install: Run, tmp_path: Path) -> None:
    assert install("simple", "torch").returncode == 0
    [core] = tmp_path.glob("env/lib/python*/site-packages/torch/__init__.py")
    before = core.stat().st_ino
    for label in ("cu118", "cu124", "cu118"):
        assert install("simple", f"torch-cuda==2.6.0+{label}").returncode == 0
        assert installed(tmp_path) == {
            "torch": CORE,
            "torch_cuda": f"2.6.0+{label}",
            "torch_cuda_libraries": f"2.6.0+{label}",
        }
    assert core.stat().st_ino == before  # the core was not installed again


def test_a_signed_list_demands_of_the_index_for_all_what_that_one_lists(tmp_path: Path) -> None:
    publish(tmp_path / "dist", "12.4")
    make_wheel(tmp_path / "dist", "torch-cuda-libraries", "2.6.0+cu124.sm90", cuda="12.4")
    root = tmp_path / "site"
    site.build_site(tmp_path / "dist", root)
    assert main(["index", "key", str(tmp_path / "key")]) == 0
    assert main(["index", "sign-list", "--site", str(root), "--key", str(tmp_path / "key")]) == 0
    assert main(["index", "check", str(root), "--root", str(root / "tuf/root.json")]) == 0


def test_two_cudas_at_once_are_refused(install: Run, tmp_path: Path) -> None:
    both = install("simple", "torch-cuda==2.6.0+cu118", "torch-cuda-libraries==2.6.0+cu124")
    assert both.returncode and "torch-cuda" in both.stderr
    assert installed(tmp_path) == {}


def test_what_does_not_belong_together_is_not_paired(tmp_path: Path) -> None:
    core, whole = make_pair(tmp_path / "a dist")
    with pytest.raises(UsageError, match="has the libraries in it") as refused:
        pair_wheels(core, whole, tmp_path)
    assert shlex.split(refused.value.next_step or "") == ["decouple", "repack", "split", str(whole)]
    pins = ("torch==2.6.0+decoupled.7", "torch-cuda-libraries==2.6.0+cu124")
    other = make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", requires=pins, cuda="12.4")
    with pytest.raises(UsageError, match=r"decoupled\.7.*\.1"):
        pair_wheels(core, other, tmp_path)
    with pytest.raises(UsageError, match="of torch-cuda and torch"):
        pair_wheels(other, core, tmp_path)


def test_the_paired_core_is_the_bare_one_but_for_its_name(tmp_path: Path) -> None:
    publish(tmp_path, "12.4")
    contents = []
    for name in (f"torch-{CORE}", "torch-2.6.0+cu124"):
        with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl") as wheel:
            contents.append({one: wheel.read(one) for one in wheel.namelist() if ".dist-info" not in one})
    bare, paired = contents
    assert bare.keys() == paired.keys()
    assert [one for one in bare if bare[one] != paired[one]] == ["torch/version.py"]
