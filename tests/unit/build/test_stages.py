"""The driver of stage 1 on a small tree, with real CMake, ninja and setuptools."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, hold_lock
from decouple.base.git import PLAIN_DIFF, read_git_text, run_git
from decouple.base.process import run_logged
from decouple.build import inputs, root_description, rootfs, stage, toolchain, toolkits
from decouple.build.environment import HostEnvironment, Places, RootEnvironment, locate_environment_note
from decouple.build.options import Choices, Provenance
from decouple.build.shards import ObjectShard
from decouple.build.stage import BuildJob, StageWheel
from decouple.build.stage1 import Stage1
from decouple.build.stage2 import Bindings, Stage2
from decouple.build.toolchain import make_variables
from decouple.build.tree_status import keep_clean
from decouple.build.wheel_finishing import read_manifest
from decouple.flows.clean import CleanRequest, clean_build
from decouple.flows.provenance import list_overlay_files
from tests.unit.build.conftest import commit, make_tree

NO_CACHE = Choices(variables={"CMAKE_C_COMPILER_LAUNCHER": "", "CMAKE_CXX_COMPILER_LAUNCHER": ""})


class Recorder:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, float | None]] = []
        self.amount = 0.0
        self.effort: list[float] = []

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        self.said.append((what, total))
        self.effort += [effort] if effort else []

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        self.amount += amount
        self.effort += [effort] if effort else []

    def finish(self, note: str = "") -> None: ...


def test_a_wheel_with_its_manifest_in_it_and_beside_it(host: HostEnvironment, provenance: Provenance) -> None:
    progress = Recorder()
    outcome = Stage1(BuildJob(host, provenance, NO_CACHE, progress=progress)).build_wheel()
    assert outcome.built
    assert outcome.objects == 4
    expected, *spent = progress.effort
    assert expected == sum(spent) > 0, "the ETA goes by what objects are expected to take"
    assert outcome.wheel.name.startswith("tiny-2.6.0+decoupled-")
    manifest = read_manifest(outcome.wheel)
    assert manifest.tree == inputs.read_tree_state(host.places.tree)[0]
    assert manifest.environment["USE_CUDA"] == "0"
    assert manifest.toolchain["cmake"].startswith("cmake version")
    assert manifest.series.digest == provenance.series_digest
    assert manifest.times == {"source_date_epoch": 1738108800}
    beside = outcome.wheel.with_name(outcome.wheel.name + ".decouple.json")
    assert beside.read_bytes() == manifest.to_json()
    with zipfile.ZipFile(outcome.wheel) as wheel:
        assert "tiny/lib/libtiny.so" in wheel.namelist()
    assert ("stage 1", 6) in progress.said
    assert progress.amount == 6


def test_a_revision_ends_both_versions_and_its_absence_changes_nothing(
    host: HostEnvironment, provenance: Provenance
) -> None:
    second = Choices(revision=2)
    assert make_variables(host, 1, provenance)["PYTORCH_BUILD_VERSION"] == "2.6.0+decoupled"
    assert make_variables(host, 1, provenance, second)["PYTORCH_BUILD_VERSION"] == "2.6.0+decoupled.2"
    assert make_variables(host, 2, provenance, second)["TORCH_CUDA_REVISION"] == "2"
    assert "TORCH_CUDA_REVISION" not in make_variables(host, 2, provenance)


def test_the_hosts_compilers_and_libraries_are_those_its_user_names(
    host: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDACXX", "/opt/cuda/bin/nvcc")
    monkeypatch.setenv("CUDNN_ROOT", "/opt/own cudnn")
    monkeypatch.setenv("LD_PRELOAD_OF_MINE", "no build's business")
    here = make_variables(host, 2, provenance)
    assert (here["CUDACXX"], here["CUDNN_ROOT"]) == ("/opt/cuda/bin/nvcc", "/opt/own cudnn")
    assert "LD_PRELOAD_OF_MINE" not in here
    root = rootfs.Root(root_description.load_description(), host.places.project, ("core", "cuda"))
    assert make_variables(RootEnvironment(host.places, root), 2, provenance)["CUDACXX"] == "/usr/bin/nvcc"


def test_a_machine_without_ccache_compiles_without_it(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMake was given a launcher that was not there, and said that the C compiler is broken."""
    (tmp_path / "programs").mkdir()
    git = next(path for folder in os.get_exec_path() if (path := Path(folder, "git")).exists())
    (tmp_path / "programs/git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    own = Choices(variables={"CMAKE_CXX_COMPILER_LAUNCHER": "sccache"})
    for number in (1, 2):
        here = make_variables(host, number, provenance)
        assert "ccache" not in here.values()
        assert "CMAKE_C_COMPILER_LAUNCHER" not in here
        assert make_variables(host, number, provenance, own)["CMAKE_CXX_COMPILER_LAUNCHER"] == "sccache"
    root = rootfs.Root(root_description.load_description(), host.places.project, ("core",))
    there = make_variables(RootEnvironment(host.places, root), 1, provenance)
    assert there["CMAKE_C_COMPILER_LAUNCHER"] == "ccache", "a root has its own"
    (tmp_path / "programs/ccache").touch(0o755)
    assert make_variables(host, 1, provenance)["CMAKE_C_COMPILER_LAUNCHER"] == "ccache"


def test_a_source_with_its_submodules_keeps_the_header_that_its_flatbuffers_takes(
    host: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root's flatc wrote another one over it, and "Non-compatible flatbuffers version" ended the compile."""
    monkeypatch.setattr(HostEnvironment, "kind", "portable")
    asked: list[str] = []
    monkeypatch.setattr(Stage1, "run_step", lambda self, what, *_, **__: asked.append(what))
    Stage1(BuildJob(host, provenance, NO_CACHE)).prepare()
    assert "mobile_bytecode_generated.h for the bundled flatbuffers" in asked
    asked.clear()
    (host.places.tree / "third_party/flatbuffers/include").mkdir(parents=True)
    Stage1(BuildJob(host, provenance, NO_CACHE)).prepare()
    assert asked, "it is configured"
    assert "mobile_bytecode_generated.h for the bundled flatbuffers" not in asked


def test_pip_takes_the_finished_wheel(host: HostEnvironment, provenance: Provenance, tmp_path: Path) -> None:
    wheel = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().wheel
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path / "site")]
    subprocess.run([*pip, str(wheel)], check=True)
    assert (tmp_path / "site" / "tiny" / "lib" / "libtiny.so").exists()


def test_a_second_run_with_nothing_changed_takes_seconds(host: HostEnvironment, provenance: Provenance) -> None:
    first = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    before = first.wheel.stat().st_mtime_ns
    began = time.monotonic()
    second = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert not second.built
    assert second.wheel.stat().st_mtime_ns == before
    assert time.monotonic() - began < 10


def test_a_finished_build_does_not_count_towards_the_next(host: HostEnvironment, provenance: Provenance) -> None:
    # Building the same inputs again from nothing added up the time and the cache's hits of both builds.
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    recorded = host.places.state / "stage1.effort"  # what interrupted runs took
    assert not recorded.exists()


def test_an_edit_its_commit_and_a_damaged_wheel_make_it_build_again(
    host: HostEnvironment, provenance: Provenance
) -> None:
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    (host.places.tree / "part1.c").write_text("int part1(void) { return 11; }\n")
    edited = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert edited.built
    assert "+" in read_manifest(edited.wheel).tree  # says that the tree is not what was committed
    commit(host.places.tree)
    assert Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built
    edited.wheel.write_bytes(b"damaged")
    assert Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built


def test_a_change_of_the_file_that_cmake_includes_makes_it_build_again(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path
) -> None:
    # The portable core was called up to date after inside/portable.cmake had changed how its library is linked.
    ours = tmp_path / "ours.cmake"
    ours.write_text("set(ONE 1)\n")
    choices = Choices(variables={**NO_CACHE.variables, "CMAKE_PROJECT_Torch_INCLUDE": str(ours)})
    assert Stage1(BuildJob(host, provenance, choices)).build_wheel().built
    assert not Stage1(BuildJob(host, provenance, choices)).build_wheel().built
    ours.write_text("set(ONE 2)\n")
    assert Stage1(BuildJob(host, provenance, choices)).build_wheel().built


def test_another_number_of_jobs_builds_nothing(host: HostEnvironment, provenance: Provenance) -> None:
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    choices = Choices(jobs=1, variables=NO_CACHE.variables)
    assert not Stage1(BuildJob(host, provenance, choices)).build_wheel().built


def test_what_a_killed_shard_started_keeps_the_next_one_waiting(
    host: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a whole stage (tests/fault/build/test_kill.py): each step holds the lock, and the tree's note."""
    seen = []

    def run_step(argv: Sequence[str], *, held: Sequence[int] = (), **options: Any) -> None:
        seen.append([Path(f"/proc/self/fd/{number}").readlink().name for number in held])
        run_logged(argv, held=held, **options)

    monkeypatch.setattr(stage, "run_logged", run_step)
    Stage1(BuildJob(host, provenance, NO_CACHE)).compile_shard(ObjectShard(1, 2))
    assert seen and all(lock == "stage1.lock" and note.startswith("unknown-before-stage1-") for lock, note in seen)


def _build_while_the_tree_moves(host: HostEnvironment, provenance: Provenance) -> Callable[[], object]:
    """Let a build wait for the stage's lock, commit to the tree, and let it go on; what that build returned."""
    waits = threading.Event()
    job = BuildJob(host, provenance, NO_CACHE, say=lambda line: waits.set() if "waits" in line else None)
    with ThreadPoolExecutor(1) as pool:
        with hold_lock(host.places.locks / "stage1.lock"):
            built = pool.submit(Stage1(job).build_wheel)
            assert waits.wait(60)
            (host.places.tree / "part1.c").write_text("int part1(void) { return 11; }\n")
            commit(host.places.tree)
    return built.result


def test_a_stage_that_waited_notes_what_it_compiled(host: HostEnvironment, provenance: Provenance) -> None:
    _build_while_the_tree_moves(host, provenance)()
    stamp = inputs.read_stamp(host.places.state / "stage1.json")
    assert stamp is not None
    now = inputs.hash_tree_content(host.places.tree, toolkits.list_unread_paths(1, ""))
    assert stamp.content == now
    assert read_manifest(host.places.dist / stamp.wheel).tree == inputs.read_head_tree(host.places.tree)
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built


def test_no_wheel_names_the_overlay_of_before(host: HostEnvironment, provenance: Provenance) -> None:
    known = replace(provenance, tree=inputs.read_head_tree(host.places.tree))
    with pytest.raises(DecoupleError, match=r"its HEAD moved since this run began.*run the same command again"):
        _build_while_the_tree_moves(host, known)()
    assert not (host.places.state / "stage1.json").exists()


def test_two_builds_of_the_same_inputs_give_the_same_bytes(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path
) -> None:
    first = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().wheel.read_bytes()
    time.sleep(2)  # zip counts in steps of two seconds
    again = make_tree(tmp_path / "again" / "src")
    places = Places.of_release(tmp_path / "again", "2.6", tmp_path / "cache", again)
    places = replace(places, project=host.places.project)
    places.create_folders()
    # The fixed places of the Debian root make paths equal; on the host the variables that name places differ.
    other = Stage1(BuildJob(HostEnvironment(places), provenance, NO_CACHE)).build_wheel().wheel.read_bytes()
    one, two = (unpacked(data, tmp_path / name) for data, name in ((first, "one"), (other, "two")))
    different = {name for name in one if one[name] != two[name]}
    info = "tiny-2.6.0+decoupled.dist-info"  # the bill of materials names the manifest's hash, and RECORD both
    assert different == {f"{info}/decouple.json", f"{info}/sboms/decouple.cdx.json", f"{info}/RECORD"}


def unpacked(data: bytes, file: Path) -> dict[str, tuple[bytes, object, int]]:
    file.write_bytes(data)
    with zipfile.ZipFile(file) as wheel:
        return {info.filename: (wheel.read(info), info.date_time, info.external_attr) for info in wheel.infolist()}


def test_a_failing_compile_names_the_object_the_reason_and_the_log(
    host: HostEnvironment, provenance: Provenance
) -> None:
    (host.places.tree / "part2.c").write_text("int part2(void) { return nowhere; }\n")
    with pytest.raises(DecoupleError) as caught:
        Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert "part2.c" in caught.value.what
    assert "nowhere" in caught.value.what
    assert str(host.places.logs / "stage1.log") in str(caught.value.next_step)
    assert "return nowhere;" in (host.places.logs / "stage1.log").read_text()  # the compiler's whole message
    (host.places.tree / "part2.c").write_text("int part2(void) { return 2; }\n")
    assert Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built


def test_a_failing_configure_says_what_cmake_said(host: HostEnvironment, provenance: Provenance) -> None:
    lists = host.places.tree / "CMakeLists.txt"
    lists.write_text(lists.read_text() + 'message(FATAL_ERROR "no such thing")\n')
    with pytest.raises(DecoupleError, match=r"stage 1.*CMakeLists"):
        Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()


def test_what_a_failed_configure_of_other_options_left_is_configured_again(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """CMakeCache.txt was that of USE_X=1, and the build without it went on with it."""
    asked: list[str] = []

    def prepare(value: str, *, fails: bool = False) -> None:
        stage1 = Stage1(BuildJob(host, provenance, Choices(variables={"USE_X": value})))

        def run_step(what: str, *_: object) -> None:
            asked.append(f"{what}, USE_X={value}")
            (stage1.folder / "build.ninja").touch()
            if fails:
                raise DecoupleError("cmake stopped", next_step="read the log")

        stage1.run_step = run_step  # type: ignore[method-assign,assignment]
        stage1.prepare()

    prepare("0")
    with pytest.raises(DecoupleError, match="cmake stopped"):
        prepare("1", fails=True)
    prepare("0")
    prepare("0")
    assert asked == [f"configure stage 1, USE_X={value}" for value in (0, 1, 0)]


def test_stage2_wants_stage1_first(host: HostEnvironment, provenance: Provenance) -> None:
    with pytest.raises(DecoupleError, match=r"--stage 1.*--core stock"):
        Stage2(BuildJob(host, provenance, NO_CACHE)).build_wheel()


class OnThisMachine(Stage2):
    """Stage 2 of a machine without CUDA, which configures nothing here."""

    def check_environment(self) -> None: ...


class Packed(OnThisMachine):
    """Stage 2 that packs nothing but its metadata."""

    def prepare(self) -> None: ...

    def make_raw_wheel(self) -> Path:
        raw = self.places.raw / "torch_cuda-2.6.0+cu124-py3-none-any.whl"
        with zipfile.ZipFile(raw, "w") as wheel:
            text = "Metadata-Version: 2.1\nName: torch-cuda\nVersion: 2.6.0+cu124\n"
            wheel.writestr("torch_cuda-2.6.0+cu124.dist-info/METADATA", text)
        return raw


class RootOnThisMachine(RootEnvironment, frozen=True):
    """A root by its description alone: commands run on this machine."""

    def name_places(self) -> dict[str, str]:
        return HostEnvironment(self.places).name_places()

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        return HostEnvironment(self.places).argv(command, variables, start)

    def describe_inputs(self, layers: Sequence[str]) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(("layer", "toolkit"), [("cuda", ""), ("rocm", "rocm")])
def test_another_pinned_file_of_a_layer_makes_it_build_again(
    layer: str, toolkit: str, host: HostEnvironment, provenance: Provenance
) -> None:
    """Stage 2 was called up to date with headers of another cuDNN."""

    def build(description: root_description.Description) -> bool:
        root = rootfs.Root(description, host.places.project, ())
        job = BuildJob(RootOnThisMachine(host.places, root), provenance, Choices(core="stock", toolkit=toolkit))
        return Packed(job).build_wheel().built

    ours = root_description.load_description()
    assert (build(ours), build(ours)) == (True, False)
    other = replace_pins(ours, layer)
    assert (build(other), build(other)) == (True, False)
    assert not build(replace_pins(other, "cuda11.8")), "of another layer"


def replace_pins(description: root_description.Description, name: str) -> root_description.Description:
    """The description with other files behind the same names in one layer."""
    layer = description.find_layer(name)
    pypi = tuple(replace(piece, sha256="0" * 64) for piece in layer.pypi)
    debs = tuple(replace(piece, files=tuple((path, "0" * 64) for path, _ in piece.files)) for piece in layer.debs)
    toolkits = tuple(replace(piece, wheels=()) for piece in layer.toolkit)
    other = replace(layer, pypi=pypi, debs=debs, toolkit=toolkits)
    return replace(description, layers=tuple(other if known is layer else known for known in description.layers))


def test_objects_of_another_version_of_a_pinned_package_are_foreign(host: HostEnvironment, tmp_path: Path) -> None:
    """dpkg-deb leaves headers the time at which they were packed: ninja sees nothing of it."""
    root = rootfs.Root(root_description.load_description(), host.places.project, ())
    told = toolchain.describe_toolchain(RootOnThisMachine(host.places, root), 1, ["rocm"], {})
    packages = told["packages"]
    assert packages["hipcc"]
    toolchain.note_compilers(tmp_path, {**told, "packages": {**packages, "hipcc": "1.0-1"}})
    assert toolchain.find_other_compilers(tmp_path, told).startswith("hipcc 1.0-1, now ")


def make_core(places: Places, text: str) -> None:
    """What stage 1 leaves, with one file in its wheel."""
    name = "torch-2.6.0+decoupled-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(places.dist / name, "w") as wheel:
        wheel.writestr("torch/version.py", text)
    stamp = inputs.Stamp("0", name, compute_sha256(places.dist / name), 1.0, 1)
    inputs.write_stamp(places.core_state / "stage1.json", stamp)


def test_another_core_or_a_wheel_that_is_not_the_one_it_made_makes_stage_2_build_again(
    host: HostEnvironment, provenance: Provenance
) -> None:
    def build() -> bool:
        return Packed(BuildJob(host, provenance, NO_CACHE)).build_wheel().built

    make_core(host.places, "one")
    assert (build(), build()) == (True, False)
    make_core(host.places, "two")
    assert (build(), build()) == (True, False)
    next(host.places.dist.glob("torch_cuda-*.whl")).write_bytes(b"another, of an index say")
    assert build()


def test_stage_2_notes_the_core_that_it_was_compiled_against(host: HostEnvironment, provenance: Provenance) -> None:
    """`verify` looked at the one that was unpacked last, which may be newer."""
    path = host.places.state / "stage2.json"

    def build() -> inputs.Stamp:
        Packed(BuildJob(host, provenance, NO_CACHE)).build_wheel()
        stamp = inputs.read_stamp(path)
        assert stamp
        return stamp

    make_core(host.places, "one")
    made = build()
    assert made.core == compute_sha256(next(host.places.dist.glob("torch-*.whl")))
    inputs.write_stamp(path, replace(made, core=""))  # of a build of before it was noted
    assert build() == made, "nothing is compiled for it"


def test_a_core_is_not_exchanged_under_a_run_that_compiles_against_it(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """It was: a second run unpacks the core before it waits for the lock of stage 2."""
    make_core(host.places, "one")
    compiles, told = OnThisMachine(BuildJob(host, provenance, NO_CACHE)), threading.Event()
    version = host.places.core / "torch/version.py"
    with ThreadPoolExecutor(1) as pool:
        with compiles.hold_inputs() as held:
            assert [Path(f"/proc/self/fd/{number}").readlink().name for number in held] == ["core.lock"]
            make_core(host.places, "two")
            job = BuildJob(host, provenance, NO_CACHE, say=lambda line: told.set() if "waits" in line else None)
            other = pool.submit(OnThisMachine, job)
            assert told.wait(60) and version.read_text() == "one"
        other.result(60)
    assert version.read_text() == "two"
    with pytest.raises(DecoupleError, match="another core was unpacked"), compiles.hold_inputs():
        pass


class AsInRoot(HostEnvironment, frozen=True):
    """Where each tree has one name."""

    def name_places(self) -> dict[str, str]:
        return {name: f"/decouple/{name}" for name in super().name_places()}


def test_objects_and_settings_of_one_tree_are_not_anothers(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path
) -> None:
    """`--tree` names one. A root gives both one name: CMake and ninja see no difference, but for times."""
    other = tmp_path / "other" / "src"
    shutil.copytree(host.places.tree, other)
    here, there = (
        AsInRoot(places) for places in (host.places, replace(host.places, tree=other, stage1=other / "build"))
    )
    configured = []

    def note_step(stage: Stage1 | Stage2) -> None:
        def run_step(what: str, *_: object) -> None:
            configured.append((what, stage.places.tree.parent.name, stage.variables.get("USE_X")))
            stage.folder.mkdir(exist_ok=True)
            (stage.folder / "build.ninja").touch()

        stage.run_step = run_step  # type: ignore[method-assign,assignment]
        stage.prepare()

    for environment, value in ((here, "1"), (there, "2"), (here, "2"), (here, "2")):
        note_step(Stage1(BuildJob(environment, provenance, Choices(variables={"USE_X": value}))))
    first = host.places.tree.parent.name
    assert [(tree, value) for _, tree, value in configured] == [(first, "1"), ("other", "2"), (first, "2")]

    stock = Choices(core="stock")
    note_step(OnThisMachine(BuildJob(here, provenance, stock)))
    (host.places.stage2 / "Gemm.cu.o").touch()
    note_step(OnThisMachine(BuildJob(here, provenance, stock)))
    assert (host.places.stage2 / "Gemm.cu.o").exists()
    note_step(OnThisMachine(BuildJob(there, provenance, stock)))
    assert not (host.places.stage2 / "Gemm.cu.o").exists()


@pytest.mark.parametrize("number", [1, 2])
def test_a_deletion_of_foreign_objects_that_was_interrupted_goes_on(
    number: int, host: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note that called them foreign went before them, and what was left was linked into this build's wheel."""

    def prepare() -> Stage1 | Stage2:
        kind, core = ((Stage1, "built"), (OnThisMachine, "stock"))[number - 1]
        stage = kind(BuildJob(host, provenance, Choices(core=core)))
        stage.run_step = lambda *_, **__: None  # type: ignore[method-assign]
        stage.prepare()
        return stage

    folder = prepare().folder
    note = folder / ("decouple-toolchain.json", "decouple-tree")[number - 1]
    foreign = json.dumps(dict.fromkeys(json.loads(note.read_text()), "another")) if number == 1 else "of another"
    objects = [folder / "objects/a.o", *(folder / f"{name}.ninja" for name in "abcdefgh")]
    for reached in range(len(objects)):
        for path in (*objects, note):
            path.parent.mkdir(exist_ok=True)
            path.write_text(foreign)
        with interrupt_deletion(reached, monkeypatch), pytest.raises(KeyboardInterrupt):
            prepare()
        assert any(path.exists() for path in objects)
        prepare()
        assert not any(path.exists() for path in objects), f"interrupted after {reached} files"


@contextlib.contextmanager
def interrupt_deletion(reached: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Interrupt whoever deletes files once that many are gone."""
    unlink, gone = os.unlink, itertools.count()

    def stop(*arguments: Any, **options: Any) -> None:
        if next(gone) == reached:
            raise KeyboardInterrupt
        unlink(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", stop)
        yield


def test_a_folder_that_is_no_applied_tree_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="decouple apply RELEASE"):
        inputs.read_tree_state(tmp_path)


def test_a_stage_is_not_built_again_for_what_it_does_not_read(host: HostEnvironment, provenance: Provenance) -> None:
    assert Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built
    kernel = host.places.tree / "third_device" / "torch_cuda" / "torch_cuda" / "csrc" / "Kernel.cu"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("// stage 2 only\n")
    commit(host.places.tree)
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built
    kernel.write_text("// edited\n")
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built
    (host.places.tree / "third_device" / "README.md").write_text("docs\n")
    commit(host.places.tree)
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built
    preload = host.places.tree / "third_device/added_to_core/torch/_decoupled/preload.py"
    preload.parent.mkdir(parents=True)
    for path in (preload, host.places.tree / "third_device" / "new.txt"):
        path.write_text("who knows\n")
        commit(host.places.tree)
        assert Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built


def test_a_wheel_names_edits_of_what_its_stage_reads_committed_or_not(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """A commit that is in no patch passed for the series; an edit that stage 1 does not read stayed in its wheel."""

    def find_edit() -> bool:
        wheel = Stage1(BuildJob(host, replace(provenance, series_tree=made), NO_CACHE)).build_wheel().wheel
        return "+" in read_manifest(wheel).tree

    made = inputs.read_head_tree(host.places.tree)
    kernel = host.places.tree / "third_device/torch_cuda/torch_cuda/csrc/Kernel.cu"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("// stage 2 only\n")
    commit(host.places.tree)
    assert not find_edit()
    part = host.places.tree / "part0.c"
    before = part.read_text()
    part.write_text(f"{before}/* in no patch */\n")
    assert find_edit()
    commit(host.places.tree)
    assert find_edit()
    part.write_text(before)
    commit(host.places.tree)
    assert not find_edit()


def test_an_edit_in_a_file_that_git_does_not_know_makes_it_build_again(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """A new header was compiled, and an edit of it called up to date until it was added."""
    tree = host.places.tree
    (tree / "part0.c").write_text('#include "mine.h"\nint part0(void) { return MINE; }\n')
    (tree / "mine.h").write_text("#define MINE 1\n")
    first = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    said = read_manifest(first.wheel).tree
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built, "what it left counts as little as ever"
    (tree / "mine.h").write_text("#define MINE 2\n")
    second = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert second.built and read_manifest(second.wheel).tree != said
    (tree / "third_device/layer").mkdir(parents=True)
    (tree / "third_device/layer/mine.cpp").write_text("of neither stage\n")
    assert not Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().built


def test_a_tree_without_files_of_a_person_has_the_digest_that_it_always_had(tree: Path) -> None:
    """Else each build that is there would be made again."""
    (tree / "part0.c").write_text("int part0(void) { return 10; }\n")
    (tree / "build").mkdir()
    (tree / "build/part0.o").write_text("as .gitignore has it")
    (tree / "part0.egg-info").mkdir()
    (tree / "part0.egg-info/PKG-INFO").write_text("what packing leaves, in a tree in which no build ended yet")
    listed = run_git("ls-tree", "-r", "-z", "HEAD", cwd=tree)
    changed = run_git("diff", "HEAD", *PLAIN_DIFF, "--binary", cwd=tree)
    before = inputs.hash_tree_content(tree, ())
    assert before == hashlib.sha256(listed + b"\0\0" + changed).hexdigest()
    assert inputs.read_tree_state(tree)[1] == hashlib.sha256(changed).hexdigest()
    with keep_clean(tree, "x"):
        (tree / "made.so").write_text("")
        assert inputs.hash_tree_content(tree, ()) == before, "what a build under way makes is not a person's"
    assert inputs.hash_tree_content(tree, ()) == before


def test_names_links_and_contents_of_a_persons_files_count(tree: Path) -> None:
    seen = {inputs.hash_tree_content(tree, ())}

    def changes() -> bool:
        before = len(seen)
        seen.add(inputs.hash_tree_content(tree, ()))
        return len(seen) > before

    (tree / "new").mkdir()
    assert not changes(), "an empty folder"
    (tree / "new/ä b.c").write_text("int one;\n")
    assert changes() and inputs.read_tree_state(tree)[1]
    (tree / "new/ä b.c").rename(tree / "new/c.c")
    assert changes()
    (tree / "new/c.c").chmod(0o755)
    assert changes()
    (tree / "new/link").symlink_to("c.c")
    assert changes()
    (tree / "new/link").unlink()
    (tree / "new/link").symlink_to("nowhere")
    assert changes()
    assert len({inputs.hash_tree_content(tree, ["new"]), inputs.hash_tree_content(tree, ["new/c.c", "new/link"])}) == 1


def test_stage_1_reads_of_the_overlay_the_python_that_its_packer_takes() -> None:
    """Neither docs nor examples; whatever is new counts until it is listed."""
    project = Path(__file__).parents[3]
    taken = set(re.findall(r'^\+ .*"(third_device/[^"]+)"', _read_patch(project, "setup-decoupled-packages"), re.M))
    assert {"third_device/added_to_core/torch/_decoupled", "third_device/torch_cuda/torch_cuda/core"} <= taken
    unread = tuple(f"{path}/" for path in toolkits.list_unread_paths(1, ""))
    read = {name for name in list_overlay_files(project) if not f"{name}/".startswith(unread)}
    assert read and all(any(name.startswith(f"{folder}/") for folder in taken) for name in read), read
    assert not any(f"{folder}/x.py".startswith(unread) for folder in taken)


def _read_patch(project: Path, name: str) -> str:
    (path,) = (project / "patches/2.6").glob(f"*-{name}.patch")
    return path.read_text()


def test_stage_2_reads_the_folder_of_its_own_vendor_alone() -> None:
    assert "third_device/torch_hip" in toolkits.list_unread_paths(2, "")
    ours = toolkits.list_unread_paths(2, "rocm")
    assert not {"third_device/torch_hip", "third_device/torch_cuda", "third_device/tools"} & {*ours}
    assert {"third_device/README.md", "third_device/examples"} <= {*ours}


def test_a_newer_core_rewrites_only_the_headers_that_changed(tmp_path: Path) -> None:
    def wheel(name: str, **members: str) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, content in members.items():
                archive.writestr(f"include/{member}.h", content)
        return tmp_path / name

    core = tmp_path / "core"
    assert inputs.unpack_changed_files(wheel("one.whl", same="1", other="1", gone="1"), core) == 3
    before = (core / "include/same.h").stat().st_mtime_ns
    assert inputs.unpack_changed_files(wheel("two.whl", same="1", other="2"), core) == 1
    assert (core / "include/same.h").stat().st_mtime_ns == before
    assert (core / "include/other.h").read_text() == "2"
    assert not (core / "include/gone.h").exists()


def test_what_an_earlier_build_installed_does_not_come_into_the_wheel(
    host: HostEnvironment, provenance: Provenance
) -> None:
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    lists = host.places.tree / "CMakeLists.txt"
    lists.write_text(lists.read_text() + "set_target_properties(tiny PROPERTIES OUTPUT_NAME renamed)\n")
    with zipfile.ZipFile(Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().wheel) as wheel:
        assert [name for name in wheel.namelist() if ".so" in name] == ["tiny/lib/librenamed.so"]


def test_git_takes_no_notice_of_what_a_build_leaves_in_the_tree(host: HostEnvironment, provenance: Provenance) -> None:
    """A pristine tree has no .gitignore, and whoever edits it by plain git looks for his own files in the status."""
    tree = host.places.tree
    run_git("rm", "-q", ".gitignore", cwd=tree)
    run_git("-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "no .gitignore", cwd=tree)
    (tree / "mine.c").write_text("int mine;\n")
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert (tree / "tiny/lib").is_dir()
    assert read_git_text("status", "--porcelain", cwd=tree) == "?? mine.c"
    (tree / "tiny/later.c").write_text("int later;\n")
    (tree / "part0.c").write_text("int part0(void) { return 10; }\n")
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert set(read_git_text("status", "--porcelain", cwd=tree).splitlines()) == {
        " M part0.c",
        "?? mine.c",
        "?? tiny/later.c",
    }


@pytest.mark.parametrize("name", ["a#b", "#a", "!a", "a*", "[a]", "a\\b", "a ", "a b", "ä"])
def test_a_made_file_of_any_name_is_ignored_and_no_other(host: HostEnvironment, name: str) -> None:
    tree = host.places.tree
    with keep_clean(tree, "x"):
        (tree / name).write_text("")
    (tree / "ab").write_text("")
    assert read_git_text("status", "--porcelain", cwd=tree) == "?? ab"


def test_objects_of_another_environment_are_not_linked_into_this_one(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """CMake would go on with the compiler and libraries that it found before."""
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    note = locate_environment_note(host.places.stage1)
    assert note.read_text() == "host"
    note.write_text("portable 3.13")
    (host.places.state / "stage1.json").unlink()
    left = host.places.stage1 / "left-over"
    left.write_text("")
    installed = host.places.tree / "tiny/lib/libold.so"
    installed.write_text("")
    with (host.places.stage1 / "install_manifest.txt").open("a") as manifest:
        manifest.write(f"\n{installed}\n")
    said: list[str] = []
    Stage1(BuildJob(host, provenance, NO_CACHE, say=said.append)).build_wheel()
    kept = host.places.tree / "build-portable-3.13"
    assert any(f"are of another environment or Python: kept as {kept.name}" in line for line in said)
    assert not left.exists() and (kept / left.name).exists() and note.read_text() == "host"
    assert not installed.exists(), "it would be packed into this one's wheel"
    assert not read_git_text("status", "--porcelain", cwd=host.places.tree)


def test_objects_wait_for_their_environment_while_another_one_builds(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path
) -> None:
    """The portable root and Debian's deleted each other's."""
    first = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    stage1, waiting = host.places.stage1, host.places.tree / "build-host"
    objects = {path: path.stat().st_mtime_ns for path in stage1.rglob("*.o")}
    stage1.rename(waiting)
    stage1.mkdir()
    locate_environment_note(stage1).write_text("portable")  # another run made it meanwhile
    first.wheel.unlink()
    again = Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    assert objects and {path: path.stat().st_mtime_ns for path in stage1.rglob("*.o")} == objects
    assert again.wheel.exists() and not waiting.exists() and (host.places.tree / "build-portable").is_dir()
    (tmp_path / "checkout/series").mkdir(parents=True)
    (tmp_path / "checkout/series/2.6.toml").touch()
    clean_build(CleanRequest(tmp_path / "checkout", "2.6", tree=host.places.tree, stage=1))
    assert not list(host.places.tree.glob("build*"))


def test_what_was_installed_under_another_name_of_the_tree_does_not_come_into_the_wheel(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """A root calls the tree /decouple/2.6/src: of a build there everything stayed, and was packed on the host."""
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    left_by_root(host.places)
    with zipfile.ZipFile(Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel().wheel) as wheel:
        assert [name for name in wheel.namelist() if ".so" in name] == ["tiny/lib/libtiny.so"]


def test_clean_takes_what_was_installed_too(host: HostEnvironment, provenance: Provenance, tmp_path: Path) -> None:
    """Only the build directory knows what it was; without it the next wheel had all of it."""
    Stage1(BuildJob(host, provenance, NO_CACHE)).build_wheel()
    left_by_root(host.places)
    (tmp_path / "checkout/series").mkdir(parents=True)
    (tmp_path / "checkout/series/2.6.toml").touch()
    clean_build(CleanRequest(tmp_path / "checkout", "2.6", tree=host.places.tree, stage=1))
    assert not host.places.stage1.exists()
    assert not list((host.places.tree / "tiny/lib").iterdir())
    assert (host.places.tree / "tiny/__init__.py").exists(), "git knows it"


def left_by_root(places: Places) -> None:
    """Make the build one of the Debian root, which installed a file more and one that git knows."""
    (places.tree / "tiny/lib/libold.so").write_text("")
    with (places.stage1 / "install_manifest.txt").open("a") as manifest:
        manifest.write(f"\n{places.tree}/tiny/lib/libold.so\n{places.tree}/tiny/__init__.py\n/usr/lib/libc.so\n")
    for name in ("install_manifest.txt", "CMakeCache.txt"):
        text = (places.stage1 / name).read_text()
        (places.stage1 / name).write_text(text.replace(str(places.tree), "/decouple/2.6/src"))
    locate_environment_note(places.stage1).write_text("rootfs")
    (places.state / "stage1.json").unlink()


def test_objects_of_another_compiler_are_not_linked_into_a_wheel_that_names_this_one(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """A package's headers are older than the objects, so ninja compiled nothing; the manifest had the new version."""

    def build() -> tuple[StageWheel, list[str]]:
        said: list[str] = []
        return Stage1(BuildJob(host, provenance, NO_CACHE, say=said.append)).build_wheel(), said

    first, _ = build()
    compiler = read_manifest(first.wheel).toolchain["cc"]
    note = toolchain.locate_compilers_note(host.places.stage1)
    known = json.loads(note.read_text())
    assert known["cc"] == compiler and "cmake" not in known, "what compiles nothing"
    left, stamp = host.places.stage1 / "left-over", host.places.state / "stage1.json"

    def change(**more: str) -> None:
        left.write_text("")
        stamp.unlink()
        note.write_text(json.dumps({**known, **more}))

    change(cc="gcc 1.0")
    assert any(f"compiled with cc gcc 1.0, now {compiler}: deleted" in line for line in build()[1])
    assert not left.exists() and json.loads(note.read_text()) == known
    change(rustc="of another release's table")
    assert not any("deleted" in line for line in build()[1]) and left.exists(), "this one does not use it"
    change()
    note.unlink()
    assert not any("deleted" in line for line in build()[1]) and left.exists(), "begun before there was a note"
    assert json.loads(note.read_text()) == known


@pytest.mark.parametrize(("name", "variable"), [("cc", "CC"), ("cxx", "CXX"), ("cxx", "CMAKE_CXX_COMPILER")])
def test_the_manifest_names_the_compiler_that_the_user_named(
    host: HostEnvironment, tmp_path: Path, name: str, variable: str
) -> None:
    """It named the usual one, whose version does not change where the user takes another."""
    other = tmp_path / "acme-cc"
    other.write_text("#!/bin/sh\necho acme 1.0\n")
    other.chmod(0o755)
    variables = {"CC": "cc", "CXX": "c++", variable: f"{other} -m64"}
    assert toolchain.describe_toolchain(host, 1, [], variables)[name] == "acme 1.0"


def test_objects_of_stage_2_go_where_a_package_has_another_version_not_where_one_came_or_went(
    host: HostEnvironment, provenance: Provenance
) -> None:
    said: list[str] = []
    stage2 = OnThisMachine(BuildJob(host, provenance, Choices(core="stock"), say=said.append))
    stage2.run_step = lambda *_, **__: None  # type: ignore[method-assign]
    stage2.own_toolchain = {"nvcc": "release 12.4", "packages": {"libc6-dev": "2.41-1", "git": "1"}}
    stage2.prepare()
    (stage2.folder / "Gemm.cu.o").touch()
    stage2.own_toolchain = {"nvcc": None, "packages": {"libc6-dev": "2.41-1", "gawk": "2"}}
    stage2.prepare()
    assert not said and (stage2.folder / "Gemm.cu.o").exists(), "nvcc did not answer, a package came and one went"
    stage2.own_toolchain = {"nvcc": "release 12.4", "packages": {"libc6-dev": "2.41-2"}}
    stage2.prepare()
    assert said == [f"stage 2: the objects in {stage2.folder} were compiled with libc6-dev 2.41-1, now 2.41-2: deleted"]
    assert not (stage2.folder / "Gemm.cu.o").exists()


def test_bindings_are_compiled_anew_for_other_kernels(host: HostEnvironment, provenance: Provenance) -> None:
    """Of two folders in turn: ninja takes the headers of the older one for those that it knows."""
    said: list[str] = []
    for name in ("one", "two", "one"):
        chosen = Choices(core="official", kernels="installed", wheels=({"name": name, "sha256": name * 8},))
        bindings = Bindings(BuildJob(host, provenance, chosen, say=said.append))
        bindings.run_step = lambda *_, **__: None  # type: ignore[method-assign]
        bindings.prepare()
        bindings.prepare()
    assert [line.partition("with ")[2] for line in said] == [
        "kernels one (oneoneoneone), now two (twotwotwotwo): deleted",
        "kernels two (twotwotwotwo), now one (oneoneoneone): deleted",
    ]


def test_a_compiler_that_is_called_by_another_name_is_the_same(tmp_path: Path) -> None:
    """GCC's line begins with that name: CC=gcc would delete what cc compiled in hours."""
    toolchain.note_compilers(tmp_path, {"cc": "cc (Debian 14.2.0-19) 14.2.0"})
    assert not toolchain.find_other_compilers(tmp_path, {"cc": "gcc-14 (Debian 14.2.0-19) 14.2.0"})
    assert toolchain.find_other_compilers(tmp_path, {"cc": "cc (Debian 14.2.0-20) 14.2.0"})


def test_a_python_of_another_minor_version_has_other_headers_and_one_of_another_patch_level_has_not() -> None:
    one, two, three = (
        toolchain.list_compilers({"python": f"Python {name}"}) for name in ("3.12.3", "3.12.11", "3.13.0")
    )
    assert one == two != three


@pytest.mark.parametrize("python", ["", "3.13"])
def test_portable_wheels_share_the_tree_and_nothing_else(tmp_path: Path, python: str) -> None:
    """Else `verify` and `test-cuda` would take the core of the last portable build for that of Debian's root."""
    own = Places.of_release(tmp_path, "2.6", tmp_path / "cache")
    other = own.for_portable(python)
    shared = {name for name in own.__struct_fields__ if getattr(own, name) == getattr(other, name)}
    assert shared == {"project", "release", "tree", "stage1", "dist", "locks", "ccache"}


def test_each_kind_of_build_has_logs_of_its_own(tmp_path: Path) -> None:
    own = Places.of_release(tmp_path, "2.6", tmp_path / "cache")
    portable, python = own.for_portable(), own.for_portable("3.13")
    others = (own.with_stage2_in("smoke"), own.with_stage2_in("smoke-rocm"), portable.with_cuda("portable", "11.8"))
    logs = {places.logs for places in (own, *others, portable, python, python.with_stage2_in("smoke"))}
    assert len(logs) == 7 and all(folder.is_relative_to(own.logs) for folder in logs)


def test_a_python_brings_its_layers_and_its_command(host: HostEnvironment, provenance: Provenance) -> None:
    assert toolchain.list_layers(1, Choices(), "portable") == ["core"]
    assert toolchain.list_layers(1, Choices(python="3.13"), "portable") == ["core", "python3.13"]
    assert toolchain.list_bindings_layers(Choices(python="3.11"), "portable") == ["core", "python3.11"]
    assert Stage1(BuildJob(host, provenance, Choices(python="3.11"))).find_python() == "python3.11"


def test_a_wheel_says_which_python_it_was_built_by(
    host: HostEnvironment, provenance: Provenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named the environment's own, also for one of `--python 3.13`."""
    (tmp_path / "python3.13").write_text("#!/bin/sh\necho Python 3.13.2\n")
    (tmp_path / "python3.13").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    choices = Choices(python="3.13", core="official", kernels="official")
    for kind in (Stage1, OnThisMachine, Bindings):
        assert kind(BuildJob(host, provenance, choices)).own_toolchain["python"] == "Python 3.13.2"
    own = Stage1(BuildJob(host, provenance, NO_CACHE)).own_toolchain["python"]
    assert own == f"Python {platform.python_version()}"
    earlier = tmp_path / "objects"
    earlier.mkdir()
    toolchain.locate_compilers_note(earlier).write_text('{"python": "Python 3.9"}')
    assert not toolchain.find_other_compilers(earlier, {"python": "Python 3.13.2"}), "objects of a --python are kept"


def test_bindings_for_the_official_half_take_no_layer_of_the_core() -> None:
    assert toolchain.list_bindings_layers(Choices(core="official"), "portable") == ["bindings"]
    assert toolchain.list_layers(2, Choices(core="official"), "portable")[0] == "core", "what kernels are compiled in"


def test_a_cold_cache_costs_bindings_no_second_preprocessing(host: HostEnvironment, provenance: Provenance) -> None:
    job = BuildJob(host, provenance, Choices(core="official", kernels="official"))
    assert Bindings(job).variables["CCACHE_DEPEND"] == "1"


def test_objects_are_compiled_by_the_python_that_was_chosen(
    host: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The portable root's own is 3.9, which reads no TOML."""
    asked: list[list[str]] = []
    monkeypatch.setattr(Stage1, "run_step", lambda self, what, command, *_: asked.append(command))
    monkeypatch.setattr(Stage1, "_estimate_seconds", lambda self: {"a.o": 1.0})
    Stage1(BuildJob(host, provenance, Choices(python="3.13"))).compile_targets()
    assert [command[0] for command in asked] == ["python3.13"]


class Told:
    """A Progress that remembers each start, advance and finish."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        self.calls.append(("start", (what, total, effort, seconds)))

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        self.calls.append(("advance", (amount, effort)))

    def finish(self, note: str = "") -> None:
        self.calls.append(("finish", note))


def test_what_ninja_says_becomes_one_piece_of_work() -> None:
    """Where CMake runs once more ninja counts that alone, and a second try counts what the first one left."""
    told = Told()
    left = {f"{number}.o": 10.0 for number in range(30)}
    follow = stage._NinjaProgress(told, "stage 1", lambda _: None, left, 150.0)
    follow("[1/1 2 0.1] Re-running CMake...")
    assert told.calls == []
    follow("[1/31 2 0.1] Building CXX object 0.o")
    follow("[2/31 2 0.1] Building CXX object 1.o")
    follow("[1/29 2 0.1] Building CXX object 2.o")
    starts = [call for name, call in told.calls if name == "start"]
    assert starts == [("stage 1", 31, 300.0, 150.0), ("stage 1", 29, 280.0, 150.0)]
    assert "finish" not in {name for name, _ in told.calls}


class Measures(Told):
    """Keeps what objects were expected to take, and took."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: list[tuple[float, float] | None] = []

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        self.measured.append(measured)


def test_what_an_object_took_is_told_with_the_next_one(tmp_path: Path) -> None:
    """Ninja writes into its log after it has said that an object is done."""
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v5\n0\t9000\t0\told.o\tabc\n")
    measured, told = stage.NinjaLogReader(tmp_path, scale=2.0), Measures()
    follow = stage._NinjaProgress(told, "stage 1", lambda _: None, {"a.o": 10.0, "b.o": 5.0}, 15.0, measured)
    follow("[1/3 1 0.1] Building CXX object a.o")
    with log.open("a") as file:
        file.write("1000\t41000\t0\ta.o\tdef\n41000\t420")  # the second line is on its way
    follow("[2/3 1 0.1] Building CXX object b.o")
    follow("[3/3 1 0.1] Linking CXX shared library c.so")
    assert told.measured == [None, (10.0, 20.0), None]


def test_what_an_object_took_counts_where_the_log_is_read_before_the_line_that_says_it(tmp_path: Path) -> None:
    """Lines come through a pipe: of a stage 2 nearly no object counted, the time to go was too long by a quarter."""
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v5\n")
    told = Measures()
    left = {"a.o": 10.0, "b.o": 5.0, "c.o": 1.0}
    follow = stage._NinjaProgress(told, "stage 1", lambda _: None, left, 16.0, stage.NinjaLogReader(tmp_path))
    with log.open("a") as file:
        file.write("0\t40000\t0\ta.o\tdef\n0\t42000\t0\tb.o\tdef\n")
    follow("[1/3 2 40.1] Building CXX object a.o")
    follow("[2/3 2 42.1] Building CXX object b.o")
    follow("[3/3 2 43.1] Building CXX object c.o")
    assert told.measured == [(10.0, 40.0), (5.0, 42.0), None]


def test_a_log_that_is_not_there_or_was_written_anew_tells_nothing_wrong(tmp_path: Path) -> None:
    measured = stage.NinjaLogReader(tmp_path)
    assert measured.read_new() == {}
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v5\n" + "0\t9000\t0\told.o\tabc\n" * 9)
    assert measured.read_new() == {"old.o": 9.0}
    log.write_text("# ninja log v5\n")
    assert measured.read_new() == {}
    with log.open("a") as file:
        file.write("5\t1005\t0\tnew.o\tabc\n")
    assert measured.read_new() == {"new.o": 1.0}


def test_a_step_that_fails_is_over(host: HostEnvironment, provenance: Provenance) -> None:
    """Its bar went on pulsing."""
    told = Told()
    job = Stage1(BuildJob(host, provenance, NO_CACHE, progress=told))
    host.places.logs.mkdir(parents=True, exist_ok=True)
    with pytest.raises(DecoupleError):
        job.run_step("something", ["false"], "/")
    assert [name for name, _ in told.calls] == ["start", "finish"]
    assert told.calls[-1][1], "not told as done"
