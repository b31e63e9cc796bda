"""Which CUDA a release is compiled with: the data agree with each other, and a wrong choice is named."""

from __future__ import annotations

import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256
from decouple.build import inputs, object_times, probe, root_description, toolkits
from decouple.build.core_wheel import unpack_core
from decouple.build.environment import HostEnvironment, Places, RootEnvironment
from decouple.build.options import Choices, Provenance
from decouple.build.rootfs import Root
from decouple.build.toolchain import list_layers, make_variables
from decouple.flows.build_request import BuildRequest, settle_choices
from decouple.upstream.manifests import load_release

PROJECT = Path(__file__).parents[3]
PINS = tomllib.loads((PROJECT / "third_device/torch_cuda/torch_cuda_build/requirements.toml").read_text())
DESCRIBED = {"rootfs": root_description.DEFAULT, "portable": root_description.PORTABLE}


@pytest.mark.parametrize("one", toolkits.read_toolkits().toolkit, ids=lambda one: f"{one.environment}-{one.cuda}")
def test_a_toolkit_is_in_its_root_and_knows_its_compiler(one: toolkits.RootToolkit) -> None:
    shipped = root_description.load_description(DESCRIBED[one.environment])
    for layer in one.layers:
        for piece in shipped.find_layer(layer).toolkit:
            assert piece.prefix == one.folder
    assert toolkits.find_newest_gcc(one.cuda)


def test_each_version_of_a_release_is_somewhere_and_has_its_requirements() -> None:
    for release, versions in toolkits.read_toolkits().releases.items():
        for cuda in versions:
            assert any(one.cuda == cuda for one in toolkits.read_toolkits().toolkit), (release, cuda)
            major = cuda.partition(".")[0]
            assert all(name == "triton" or name.endswith(f"-cu{major}") for name in PINS[cuda])


@pytest.mark.parametrize("release", ["2.6", "2.15"])
def test_the_pins_are_those_of_the_official_wheel(release: str) -> None:
    """Its manifest has them as the metadata of the wheel names them."""
    known = load_release(PROJECT, release).toolchain
    pins = {name.partition("[")[0]: pin["version"] for name, pin in PINS[str(known.cuda)].items()}
    asked = dict(pin.split("==") for pin in known.libraries)
    assert asked.items() <= pins.items()


@pytest.mark.parametrize("cuda", ["11.8", "12.4"])
def test_what_is_linked_with_is_what_the_wheel_asks_for(cuda: str) -> None:
    [piece] = root_description.load_description(root_description.PORTABLE).find_layer(f"cuda{cuda}").toolkit
    linked = {wheel.project: wheel.version for wheel in piece.wheels}
    asked = {name: pin["version"] for name, pin in PINS[cuda].items() if "only" not in pin and name != "triton"}
    assert asked.items() <= linked.items()
    assert all(wheel.file.startswith(wheel.project.replace("-", "_") + f"-{wheel.version}-") for wheel in piece.wheels)


def test_a_version_that_nobody_has_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(UsageError, match=r"--cuda 12\.9") as caught:
        toolkits.check_release("2.6", "portable", "12.9")
    assert "11.8, 12.4" in str(caught.value.next_step)
    toolkits.check_release("2.6", "rootfs", "11.8")
    with pytest.raises(UsageError, match=r"--cuda 12\.4: 2\.99"):
        toolkits.check_release("2.99", "portable", "12.4")
    toolkits.check_release("2.6", "host", "11.8")  # whatever that machine has


def test_a_version_that_this_root_has_not_is_refused_with_the_root_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = toolkits.read_toolkits()
    fewer = tuple(row for row in known.toolkit if (row.environment, row.cuda) != ("rootfs", "11.8"))
    monkeypatch.setattr(toolkits, "read_toolkits", lambda: replace(known, toolkit=fewer))
    with pytest.raises(UsageError, match=r"--cuda 11\.8.*12\.4") as caught:
        toolkits.check_release("2.6", "rootfs", "11.8")
    assert caught.value.next_step == "--env portable"


def test_the_layers_and_variables_of_a_version(host: HostEnvironment, provenance: Provenance) -> None:
    shipped = root_description.load_description(root_description.PORTABLE)
    portable = RootEnvironment(host.places, Root(shipped, host.places.project, ("core",)), kind="portable")
    assert list_layers(2, Choices(cuda="11.8"), "portable") == ["core", "cuda11.8", "tomli"]
    assert list_layers(2, Choices(cuda="12.4"), "rootfs") == list_layers(2, Choices(), "rootfs") == ["core", "cuda"]
    assert list_layers(1, Choices(cuda="11.8"), "portable") == ["core"]
    stock = Choices(core="stock", cuda="11.8")
    assert list_layers(2, stock, "rootfs") == list_layers(2, stock, "auto") == ["core", "stock", "cuda11.8"]
    assert toolkits.has_cuda(["core", "cuda11.8"]) and not toolkits.has_cuda(["core", "rocm"])
    told = make_variables(portable, 2, provenance, Choices(cuda="11.8"))
    assert told["CUDACXX"] == "/opt/cuda-11.8/bin/nvcc" and told["CUDNN_ROOT"] == "/opt/cuda-11.8"
    assert told["CCACHE_PREFIX"].endswith("inside/same_names.sh")
    assert make_variables(portable, 1, provenance, Choices(cuda="11.8")) == make_variables(portable, 1, provenance)
    assert "CUDACXX" not in make_variables(portable, 2, provenance), "bindings over compiled kernels"


def test_an_older_cuda_in_the_debian_root_has_a_host_compiler_of_its_own(
    host: HostEnvironment, provenance: Provenance
) -> None:
    """Only nvcc gets it: host sources are compiled as the core was."""
    shipped = root_description.load_description()
    debian = RootEnvironment(host.places, Root(shipped, host.places.project, ("core",)))
    told = make_variables(debian, 2, provenance, Choices(core="stock", cuda="11.8"))
    [compilers] = shipped.find_layer("cuda11.8").foreign
    assert told["CUDAHOSTCXX"] == f"{compilers.prefix}/bin/{Path(compilers.compilers[0]).name}"
    assert told["CUDACXX"] == "/opt/cuda-11.8/bin/nvcc"
    assert not {"CC", "CXX"} & told.keys()
    usual = make_variables(debian, 2, provenance, Choices(core="stock"))
    assert usual["CUDACXX"] == "/usr/bin/nvcc" and usual["CUDNN_ROOT"] == "/opt/cudnn"


def test_each_version_has_a_folder_of_its_own(host: HostEnvironment) -> None:
    folders = {host.places.with_cuda("portable", cuda).stage2 for cuda in ("11.8", "12.4")}
    assert len(folders | {host.places.stage2}) == 3
    assert host.places.with_cuda("portable", "11.8").core_state == host.places.core_state


def test_a_host_compiler_that_is_too_new() -> None:
    wanted = probe.Stage2Needs("11.8", "2.6.0", ("9.0",), "/core")
    found = probe.ProbeResult("11.8", ("90",), "9.1.0", "2.6.0", host_gcc=14)
    with pytest.raises(DecoupleError, match=r"nvcc 11\.8.*gcc 14"):
        probe.check_stage2(found, wanted)
    probe.check_stage2(replace(found, host_gcc=10), wanted)
    probe.check_stage2(replace(found, host_gcc=None), wanted)


def give_core(places: Places, tag: str) -> None:
    """The last core wheel that stage 1 made."""
    wheel = places.dist / f"torch-2.6.0+decoupled-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/version.py", "__version__ = '2.6.0+decoupled'\n")
    stamp = inputs.Stamp("0", wheel.name, compute_sha256(wheel), 1.0, 1)
    inputs.write_stamp(places.core_state / "stage1.json", stamp)


def test_a_core_of_another_environment_is_not_built_against(host: HostEnvironment, tmp_path: Path) -> None:
    """After `--env portable --stage 1` hours of `--env rootfs --stage 2` gave a wheel that no core goes with."""
    shipped = root_description.load_description(root_description.PORTABLE)
    portable = RootEnvironment(host.places, Root(shipped, tmp_path, ("core",)), kind="portable")
    debian = RootEnvironment(host.places, Root(root_description.load_description(), tmp_path, ("core",)))
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    asked = {
        "portable": (portable, f"{own}-{own}-linux_x86_64"),
        "rootfs": (debian, "cp39-cp39-manylinux_2_31_x86_64"),
        "host": (host, f"{own}-{own}-manylinux_2_31_x86_64.manylinux_2_17_x86_64"),
    }
    for kind, (environment, tag) in asked.items():
        give_core(host.places, tag)
        with pytest.raises(DecoupleError, match=f"{tag}.*decouple build 2.6 --env {kind} --stage 1"):
            unpack_core(environment, "2.6.0")
    assert not (host.places.core / "torch").exists()


def test_a_core_for_another_python_is_not_built_against(host: HostEnvironment) -> None:
    give_core(host.places, "cp38-cp38-linux_x86_64")
    with pytest.raises(DecoupleError, match=r"Python cp38.*decouple build 2\.6 --env host --stage 1"):
        unpack_core(host, "2.6.0")
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    give_core(host.places, f"{own}-{own}-linux_x86_64")
    unpack_core(host, "2.6.0")
    assert (host.places.core / "torch/version.py").exists()


def test_a_core_that_stage_1_did_not_make_is_not_built_against(host: HostEnvironment) -> None:
    """`decouple wheels` put one of an index there, under the same name."""
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    give_core(host.places, f"{own}-{own}-linux_x86_64")
    [wheel] = host.places.dist.glob("torch-*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("torch/other.py", "")
    with pytest.raises(DecoupleError, match=r"torch-2\.6.*other bytes.*decouple build 2\.6 --env host --stage 1"):
        unpack_core(host, "2.6.0")
    assert not (host.places.core / "torch").exists()


def test_another_vendors_toolkit_stands_in_place_of_cudas() -> None:
    """Its layer, and what CMake is told of it; the library path of a stock core stays before its own."""
    choices = Choices(core="stock", toolkit="rocm", archs=("gfx90a", "gfx1100"))
    layers = list_layers(2, choices, "rootfs")
    assert set(layers) == {"core", "rocm", "rocm-libraries", "stock"}
    assert set(list_layers(2, replace(choices, slice="runtime"), "rootfs")) == {"core", "rocm", "stock"}
    told = toolkits.list_vendor_variables("rocm", choices.archs, "/opt/stock/lib")
    assert told["PYTORCH_ROCM_ARCH"] == "gfx90a;gfx1100"
    assert told["LD_LIBRARY_PATH"].startswith("/opt/stock/lib:/opt/rocm/")
    assert toolkits.list_vendor_variables("rocm", (), "")["LD_LIBRARY_PATH"].startswith("/opt/rocm/")
    with pytest.raises(UsageError, match="--toolkit acme"):
        toolkits.find_vendor("acme")


@pytest.mark.parametrize("layer", ["rocm", "rocm-libraries"])
def test_its_packages_are_pinned_by_version_and_hash_in_the_root(layer: str) -> None:
    [piece] = root_description.load_description().find_layer(layer).debs
    assert piece.prefix == f"/opt/{layer}"
    for path, digest in piece.files:
        assert path.startswith("pool/main/") and path.endswith(".deb") and len(digest) == 64
    assert len({path for path, _ in piece.files}) == len(piece.files)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"archs": "9.0"}, "--arch 9.0: none of AMD's ROCm"),
        ({"cuda": "12.4"}, "--toolkit rocm, --cuda 12.4"),
        ({"env": "portable"}, "--toolkit rocm, --env portable"),
        ({"core": "official"}, "--toolkit rocm, --core official"),
        ({"stage": 1}, "--toolkit rocm, --stage 1"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(asked: dict[str, object], said: str) -> None:
    request = BuildRequest(PROJECT, "2.6", **{"env": "rootfs", "toolkit": "rocm", **asked})
    with pytest.raises(UsageError, match=said):
        settle_choices(request)


def test_a_build_of_another_vendor_is_stage_2_in_a_folder_of_its_own() -> None:
    request = BuildRequest(PROJECT, "2.6", toolkit="rocm", core="stock", part="runtime")
    assert request.env == "rootfs", "it is in the Debian root"
    assert request.stages == (2,)
    assert request.places.stage2.parent.name == "smoke-rocm"
    assert settle_choices(request).archs == ("gfx90a",)
    assert object_times.estimate_stage_cost("2.6", "rootfs", 2, settle_choices(request)).objects == 95
    whole = BuildRequest(PROJECT, "2.6", toolkit="rocm", core="stock", stage=2)
    assert object_times.estimate_stage_cost("2.6", "rootfs", 2, settle_choices(whole)).objects == 379, "501 are CUDA's"
