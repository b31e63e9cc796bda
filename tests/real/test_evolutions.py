"""Made-up futures of the real 2.6.0: a moved body that upstream mends, a split file, a renamed directory, a fork.

A script makes each tree from the real one, so the answers are known. No global rule is edited for any of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from decouple.base.checkout import Checkout
from decouple.base.paths import find_project
from decouple.cli import main
from decouple.flows.census import CensusRequest, take_census
from decouple.flows.rebase import RebaseRequest, RebaseResult, rebase_series
from decouple.rebase.verdicts import Verdict
from decouple.recipes.model import load_recipes
from decouple.relocate import stage2
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

pytestmark = pytest.mark.real
SHARING = "torch/csrc/StorageSharing.cpp"
COPY = "third_device/torch_cuda/torch_cuda/csrc/pybinding/registrations/storage_sharing.cpp"
Evolve = Callable[[Path], None]


@dataclass(frozen=True)
class Future:
    """A made-up release: the project that carried to it, upstream's tree, the applied one, and what the rebase said."""

    project: Path
    tree: Path
    applied: Path
    said: RebaseResult

    @property
    def cuda(self) -> Path:
        """CUDA's sources in the applied tree."""
        return self.applied / "third_device/torch_cuda/torch_cuda/csrc"

    @property
    def request(self) -> CensusRequest:
        """The census of both trees."""
        return CensusRequest(self.project, "evolved", tree=self.tree, applied=self.applied)


def edited(path: Path, pattern: str, put: str) -> None:
    text, count = re.subn(pattern, put, path.read_text(), count=1, flags=re.M)
    assert count == 1, pattern
    path.write_text(text)


def mended(tree: Path) -> None:
    """Upstream checks a call in a body that a patch moves."""
    edited(tree / SHARING, r"^( *)cudaIpcOpenEventHandle\(", r"\1C10_CUDA_CHECKED = cudaIpcOpenEventHandle(")


def split(tree: Path) -> None:
    """Half of a file that no patch changes, and that moves, becomes a file of its own."""
    old = tree / "aten/src/ATen/native/cuda/Loss.cu"
    lines = old.read_text().splitlines(keepends=True)
    old.write_text("".join(lines[: len(lines) // 2]))
    old.with_name("LossPart.cu").write_text("".join(lines[len(lines) // 2 :]))


def renamed(tree: Path) -> None:
    """A directory of kernels goes elsewhere below the folders that rules know."""
    (tree / "aten/src/ATen/native/quantized/cuda").rename(tree / "aten/src/ATen/native/quantized_ops_cuda")
    target = tree / "aten/src/ATen/native/quantized_ops"
    target.mkdir()
    (tree / "aten/src/ATen/native/quantized_ops_cuda").rename(target / "cuda")


def forked(tree: Path) -> None:
    """A vendor calls CUDA otherwise in its own 500 files."""
    folder = tree / "aten/src/ATen/native/cuda"
    for number in range(500):
        (folder / f"Acme{number}.cu").write_text(f"// a kernel of ours\nint acme_{number}() {{ return {number}; }}\n")
    (tree / "torch/csrc/acme.cpp").write_text("#ifdef USE_ACME\nint acme;\n#endif\n")
    edited(
        tree / "build_variables.bzl",
        r'^    "torch/csrc/jit/api/function_impl\.cpp",',
        r'    "torch/csrc/acme.cpp",\n\g<0>',
    )


OF_CUDA = re.compile(rb"\b\w*(?:CUDA|Cuda|cuda)\w*\b")
OWN = {b"CUDA": b"ACME", b"Cuda": b"Acme", b"cuda": b"acme"}


def renamable(tree: Path) -> dict[bytes, bytes]:
    """The 500 names of CUDA's that most files of the tree have, with a vendor's instead of them.

    Not those that the rules and the taxonomy name, that are in a file's name, or that a patch quotes: but text that a
    recipe makes is that of the release at hand, so what only such a patch quotes may have any name.
    """
    project = find_project()
    data = [*(project / "scripts/decouple").rglob("*.toml"), *(project / "series/recipes").iterdir()]
    made = [name for name, recipe in load_recipes(project).items() if recipe.has_edits]
    for patch in (project / "patches/2.6").iterdir():
        if not any(f"Decouple-Id: {name}\n" in patch.read_text() for name in made):
            data.append(patch)
    taken = {name for file in data for name in OF_CUDA.findall(file.read_bytes())}
    files: Counter[bytes] = Counter()
    for file in sources(tree):
        taken |= set(OF_CUDA.findall(os.fsencode(file.relative_to(tree))))
        files.update(set(OF_CUDA.findall(file.read_bytes())))
    most = sorted((name for name in files if name not in taken), key=lambda name: (-files[name], name))[:500]
    return {name: re.sub(b"|".join(OWN), lambda found: OWN[found[0]], name) for name in most}


def sources(tree: Path) -> list[Path]:
    """What is compiled and imported; what the rules know build lists by stays in the build files."""
    folders = ("aten", "c10", "caffe2", "functorch", "tools", "torch", "torchgen")
    found = (file for folder in folders for file in (tree / folder).rglob("*"))
    build = (".bzl", ".cmake", ".in", ".txt")
    return [file for file in found if file.is_file() and not file.is_symlink() and file.suffix not in build]


def called_otherwise(tree: Path) -> None:
    """A vendor's fork in which 500 of CUDA's names have its own in their place, wherever they stand."""
    names = renamable(tree)
    assert len(names) == 500
    for file in sources(tree):
        before = file.read_bytes()
        after = OF_CUDA.sub(lambda found: names.get(found[0], found[0]), before)
        if after != before:
            file.write_bytes(after)


def grown(tree: Path) -> None:
    """New couplings of later releases, in words of our own: NVSHMEM among c10d's bindings, a launcher for CUDA only."""
    launcher = "torch/csrc/inductor/static_cuda_launcher"
    bound_shmem(tree, "#include <torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cuh>")
    kernel = add_kernel(tree)
    (tree / f"{launcher}.h").write_text("#pragma once\n")
    (tree / f"{launcher}.cpp").write_text("#ifdef USE_CUDA\nbool StaticCudaLauncher_init(PyObject* module);\n#endif\n")
    edited(
        tree / "build_variables.bzl",
        r'^    "torch/csrc/inductor/resize_storage_bytes\.cpp",$',
        rf'\g<0>\n    "{launcher}.cpp",\n    "{kernel}",',
    )


def bound_shmem(tree: Path, include: str) -> None:
    """NVSHMEM among c10d's bindings; ``include`` stands where its header is included."""
    edited(
        tree / "torch/csrc/distributed/c10d/init.cpp",
        r"^#include <torch/csrc/distributed/c10d/PyProcessGroup\.hpp>$",
        rf"\g<0>\n{include}",
    )
    edited(
        tree / "torch/csrc/distributed/c10d/init.cpp",
        r"^  py::class_<::c10d::BroadcastOptions>",
        r'#ifdef USE_NVSHMEM\n  module.def("_made_up_shmem", &made_up_shmem);\n#endif\n\n\g<0>',
    )


def add_kernel(tree: Path) -> str:
    """Write a source of the core that includes CUDA's headers, and return its path."""
    kernel = "torch/nativert/kernels/C10Kernel.cpp"
    (tree / kernel).parent.mkdir(parents=True)
    (tree / kernel).write_text("#include <ATen/cuda/CUDAContext.h>\n#include <ATen/cuda/Exceptions.h>\nint kernel;\n")
    return kernel


def much_at_once(tree: Path) -> None:
    """Half a file and a directory elsewhere, new couplings, a fork's 500 kernels: no two of them touch one place."""
    for change in (split, renamed, grown, forked):
        change(tree)


@pytest.fixture(scope="module")
def pristine() -> Path:
    return fetch_source(load_release(find_project(), "2.6"), "debian").path


def make_project(root: Path) -> Path:
    """A checkout with the series of 2.6 alone, and of the overlay what a verdict reads: stage 2's lists."""
    (root / "series").mkdir(parents=True)
    shutil.copytree(find_project() / "patches/2.6", root / "patches/2.6")
    for name in ("2.6", "2.6.toml"):
        shutil.copy(find_project() / "series" / name, root / "series" / name)
    shutil.copytree(find_project() / "series/recipes", root / "series/recipes")
    for path in stage2.load_sources().sources:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(find_project() / path, root / path)
    return root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_project(tmp_path / "project")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(root))
    return root


@pytest.fixture(scope="module")
def future(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future]:
    """`much_at_once`, carried once: a tree takes minutes to carry, and seconds to look at."""
    folder = tmp_path_factory.mktemp("future")
    root = make_project(folder / "project")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DECOUPLE_PROJECT", str(root))
        # stage 2's lists name a folder that it renames, and the verdict says so
        applied, said = carried(root, pristine, folder, much_at_once, code=1)
    yield Future(root, folder / "tree", applied, said)
    shutil.rmtree(folder)


def carried(
    project: Path, pristine: Path, tmp_path: Path, evolve: Evolve, also: str = "", code: int = 0
) -> tuple[Path, RebaseResult]:
    """The tree that ``evolve`` makes of 2.6.0, with the series carried to it by `apply`; and what the rebase says.

    ``also``: the words of its own that a fork tells `apply`, which then finds nothing to say against the result.
    ``code`` is what `apply` ends with: 1 where it finds something.
    """
    tree = tmp_path / "tree"
    subprocess.run(["cp", "-a", "--reflink=auto", str(pristine), str(tree)], check=True)
    evolve(tree)
    assert main(["manifest", "fill", "evolved", "--tree", str(tree), "--write"]) == 0
    said = rebase_series(RebaseRequest(project, ("2.6", "evolved"), source=f"local:{tree}"))
    own = []
    if also:
        (tmp_path / "own.toml").write_text(also)
        own = ["--also", str(tmp_path / "own.toml")]
    assert main(["apply", "evolved", "--source", str(tree), *own]) == code
    assert main(["lint", "evolved"]) == 0
    return Checkout(project).locate_tree("evolved"), said


def test_a_mend_in_a_moved_body_moves_with_it(project: Path, pristine: Path, tmp_path: Path) -> None:
    applied, said = carried(project, pristine, tmp_path, mended)
    verdicts = {one.name: one.verdict for one in said.outcome.carried}
    assert verdicts["2.6/0013-storage-cuda-ipc.patch"] in (Verdict.MADE, Verdict.MERGED), "both ways give one tree"
    assert "C10_CUDA_CHECKED" in (applied / COPY).read_text()
    assert "C10_CUDA_CHECKED" not in (applied / SHARING).read_text()


def test_and_so_it_does_without_a_recipe(project: Path, pristine: Path, tmp_path: Path) -> None:
    (project / "series/recipes/storage-cuda-ipc.toml").unlink()
    applied, said = carried(project, pristine, tmp_path, mended)
    one = next(one for one in said.outcome.carried if one.name == "2.6/0013-storage-cuda-ipc.patch")
    assert one.verdict is Verdict.MERGED
    assert any("brought there" in note.text for note in one.notes)
    assert "C10_CUDA_CHECKED" in (applied / COPY).read_text()


def test_much_at_once_is_carried_without_a_stop(future: Future) -> None:
    assert not any(one.verdict.is_stop for one in future.said.outcome.carried)
    assert take_census(future.request).comparison.key_after == 0, "a coupling is left that CUDA's words find"


def test_files_that_move_otherwise_still_move(future: Future) -> None:
    assert (future.cuda / "aten/native/cuda/LossPart.cu").exists()
    assert (future.cuda / "aten/native/quantized_ops/cuda").is_dir()


def test_couplings_of_later_releases_are_cut_where_they_stand(future: Future) -> None:
    bindings = (future.cuda / "pybinding/registrations/c10d.cpp").read_text()
    assert "_made_up_shmem" in bindings
    assert "nvshmem_extension.cuh" in bindings
    assert "_made_up_shmem" not in (future.applied / "torch/csrc/distributed/c10d/init.cpp").read_text()
    assert (future.cuda / "framework/inductor/static_cuda_launcher.cpp").is_file()
    assert "static_cuda_launcher" not in (future.applied / "build_variables.bzl").read_text()


def test_a_fork_with_names_of_its_own(future: Future, tmp_path: Path) -> None:
    assert len(list((future.cuda / "aten/native/cuda").glob("Acme*.cu"))) == 500
    own = tmp_path / "acme.toml"
    own.write_text('schema = 1\nwords = ["acme", "Acme", "ACME"]\n[[macro]]\nfamily = "build"\nnames = ["USE_ACME"]\n')
    left = take_census(structs.replace(future.request, also=own)).after
    assert left
    assert "torch/csrc/acme.cpp" in {one.path for one in left.needing_vendor}


def test_a_fork_with_500_renamed_names(project: Path, pristine: Path, tmp_path: Path) -> None:
    words = 'schema = 1\nwords = ["acme", "Acme", "ACME"]\n'
    macros = f'{words}[[macro]]\nfamily = "compiler"\nnames = ["__ACMECC__", "__ACME_ARCH__"]\n'
    applied, said = carried(project, pristine, tmp_path, called_otherwise, also=macros)
    verdicts = {one.name: one.verdict for one in said.outcome.carried}
    assert not any(verdict.is_stop for verdict in verdicts.values())
    assert verdicts["2.6/0013-storage-cuda-ipc.patch"] in (Verdict.MADE, Verdict.MERGED), "it moves renamed text"
    copy = (applied / COPY).read_text()
    assert "acmeIpcOpenEventHandle" in copy
    assert "cudaIpcOpenEventHandle" not in copy
    own = tmp_path / "acme.toml"
    own.write_text(words)
    of = CensusRequest(project, "evolved", tree=tmp_path / "tree", applied=applied, also=own)
    left = take_census(of).after
    assert left
    assert all("__ACMECC__" in one.detail or one.path.endswith("DeviceUtils.cuh") for one in left.needing_vendor)
    assert left.needing_vendor, "nobody said that stage 1 does not define the compiler's macro"
    own.write_text(macros)
    assert take_census(of).comparison.key_after == 0
