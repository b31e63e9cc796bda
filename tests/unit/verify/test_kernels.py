"""Machine code is found in a library, kept as hashes and compared: what differs is named."""

from __future__ import annotations

import lzma
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from decouple import cli
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.release.manifest import RemoteFile
from decouple.upstream import remote_zip
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.verify.kernels import code_diff, compare, cubin, dump, fatbin, host_symbols
from decouple.verify.kernels.official import MEMBERS, fetch_members, find_kept_dump, load_official_dump
from tests.support import cubins
from tests.support.cubins import Made
from tests.support.server import FaultyServer

pytestmark = pytest.mark.tools("cc")

#: Of one source, as two builds name it: hashes, numbers and CUB's architectures differ.
ADD = "_ZN2at46_GLOBAL__N__{0}_13_SummaryOps_cu_{0}3addEv"
SCAN = "_ZN3cub{1}CUB_200302_{2}_NS4scanEv"
ONE = [Made(ADD.format("780f21a8"), b"a" * 32), Made(SCAN.format(0, 21, "500_600"), b"b" * 48)]
OTHER = [Made(ADD.format("11111111"), b"a" * 32), Made(SCAN.format(0, 17, "900"), b"b" * 48)]


def built(folder: Path, name: str, functions: Sequence[Made], arch: str = "sm_90", packing: str = "lz4") -> Path:
    return cubins.library(folder / f"lib{name}.so", [cubins.fatbin([(arch, cubins.cubin(functions))], packing)])


def compared(folder: Path, ours: Sequence[Made], theirs: Sequence[Made], **options: bool) -> compare.KernelComparison:
    sides = [
        dump.dump_libraries([built(folder, name, functions)], name) for name, functions in (("a", ours), ("b", theirs))
    ]
    return compare.compare_dumps(*sides, **options)


def test_the_same_source_built_twice_is_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, ONE, OTHER)
    assert (found.total, found.same, found.percent, found.found, found.ok) == (2, 2, 100.0, (), True)


def test_a_kernel_compiled_with_another_constant_is_found_by_name(tmp_path: Path) -> None:
    (fault,) = compared(tmp_path, [Made(ONE[0].name, b"a" * 31 + b"!"), ONE[1]], OTHER).found
    assert (fault.what, fault.file, fault.detail) == ("code", "SummaryOps.cu", "32 bytes in both")
    assert compare.demangle_name(fault.name) == "at::(anonymous namespace)::add()"


def test_a_kernel_that_was_dropped_is_found_by_name_and_so_is_one_too_many(tmp_path: Path) -> None:
    (missing,) = compared(tmp_path, ONE[:1], OTHER).found
    assert (missing.what, compare.simplify_name(missing.name)) == ("missing", "cub::scan()")
    more = compared(tmp_path, [*ONE, Made("_Z4morev", b"c" * 16)], OTHER)
    assert [(one.what, one.name) for one in more.found] == [("extra", "_Z4morev")] and not more.ok


@pytest.mark.parametrize("changed", [{"registers": 9}, {"constants": b"\1\2\3\4"}])
def test_the_same_code_with_other_resources_is_not_the_same(tmp_path: Path, changed: dict[str, Any]) -> None:
    (fault,) = compared(tmp_path, [Made(ONE[0].name, ONE[0].code, **changed), ONE[1]], OTHER).found
    assert fault.what == "launch"


def test_the_namespace_of_another_cub_shifts_the_numbers_in_a_name_and_is_seen_through(tmp_path: Path) -> None:
    # void cub::scan<cub::Policy>(cub::Policy), with and without the inline namespace
    plain, inline = "_ZN3cub4scanINS_6PolicyEEEvT_", "_ZN3cub17CUB_200200_900_NS4scanINS0_6PolicyEEEvT_"
    found = compared(tmp_path, [Made(plain, b"s" * 16)], [Made(inline, b"s" * 16)])
    assert (found.same, found.renamed) == (1, 0)


def test_what_only_the_name_tells_apart_counts_as_renamed(tmp_path: Path) -> None:
    found = compared(tmp_path, [Made("_Z3oldv", b"s" * 16)], [Made("_Z3newv", b"s" * 16)])
    assert (found.same, found.renamed, found.found) == (1, 1, ())


def test_a_part_of_a_build_is_compared_with_the_sources_that_it_has(tmp_path: Path) -> None:
    elsewhere = cubins.cubin([Made("_ZN2at42_GLOBAL__N__12345678_9_Reduce_cu_123456783maxEv", b"r" * 16)])
    whole = cubins.library(
        tmp_path / "libwhole.so",
        [cubins.fatbin([("sm_90", cubins.cubin(OTHER))]), cubins.fatbin([("sm_90", elsewhere)])],
    )
    ours, theirs = dump.dump_libraries([built(tmp_path, "part", ONE)], "part"), dump.dump_libraries([whole], "whole")
    assert compare.compare_dumps(ours, theirs).count("missing") == 1
    assert compare.compare_dumps(ours, theirs, part=True).ok


def test_a_build_without_attention_is_missing_no_other_source(tmp_path: Path) -> None:
    names = {"flash_fwd_hdim64_fp16_sm80": "flash", "Reduce": "max"}
    images = [
        cubins.cubin([Made(f"_ZN2at{len(_namespace(file))}{_namespace(file)}{len(name)}{name}Ev", b"r" * 16)])
        for file, name in names.items()
    ]
    whole = cubins.library(tmp_path / "libwhole.so", [cubins.fatbin([("sm_90", image)]) for image in images])
    none = cubins.library(tmp_path / "libnone.so", [cubins.fatbin([("sm_90", cubins.cubin(OTHER))])])
    ours, theirs = dump.dump_libraries([none], "ours"), dump.dump_libraries([whole], "whole")
    left = compare.compare_dumps(ours, theirs, attention=False)
    assert [one.file for one in left.found if one.what == "missing"] == ["Reduce.cu"]
    assert compare.compare_dumps(ours, theirs).count("missing") == 2


def _namespace(file: str) -> str:
    return f"_GLOBAL__N__12345678_{len(file) + 3}_{file}_cu_12345678"


def with_variables(folder: Path, name: str, *variables: tuple[str, bytes]) -> dump.KernelDump:
    image = cubins.fatbin([("sm_90", cubins.cubin(ONE, variables))])
    return dump.dump_libraries([cubins.library(folder / f"lib{name}.so", [image])], name)


def test_a_variable_with_another_content_is_found_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every function is the same, and the kernel computes with another number."""
    ours, theirs = (
        with_variables(tmp_path, name, ("_ZN2at5tableE", value), ("same", b"x"), alone)
        for name, value, alone in (("a", b"1.5", ("mine", b"m")), ("b", b"2.5", ("theirs", b"t")))
    )
    found = compare.compare_dumps(ours, theirs)
    assert (found.same, found.total, found.data, found.data_same, found.ok) == (2, 2, 3, 1, False)
    assert {(one.what, one.file, one.name, one.detail) for one in found.found} == {
        ("data", "SummaryOps.cu", "at::table", "another content"),
        ("data", "SummaryOps.cu", "mine", "only ours has it"),
        ("data", "SummaryOps.cu", "theirs", "only theirs has it"),
    }
    figures = found.to_dict()
    assert (figures["missing"], figures["extra"], figures["unexplained"]) == (0, 0, 3)
    assert cli.main(["kernels", "compare", str(tmp_path / "liba.so"), str(tmp_path / "libb.so")]) == 1
    assert "FAILED" in (said := capsys.readouterr().out)
    assert "initialised variables 1 of 3 the same" in said
    assert "variable: sm_90 SummaryOps.cu at::table: another content" in said


def test_where_a_source_lay_is_a_known_difference(tmp_path: Path) -> None:
    """Of the official 2.6.0 and Debian's build of it no other variable differs: 110 of 5488."""
    ours, theirs, other, longer = (
        with_variables(tmp_path, name, ("$str$7", f"{path}\0".encode()), ("$str", b"index >= 0\0"))
        for name, path in (
            ("a", "/decouple/2.6/src/c10/core/DynamicCast.h"),
            ("b", "/pytorch/c10/core/DynamicCast.h"),
            ("c", "/pytorch/c10/core/Scalar.h"),
            ("d", "see /pytorch/c10/core/DynamicCast.h"),
        )
    )
    found = compare.compare_dumps(ours, theirs)
    (known,) = found.found
    assert (known.name, known.detail) == ("__FILE__:DynamicCast.h", "another content") and "message" in known.reason
    assert found.ok and (found.data, found.data_same) == (2, 1)
    assert not compare.compare_dumps(ours, other).ok
    assert not compare.compare_dumps(ours, longer).ok


def test_what_has_no_reason_is_named_before_what_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind ten known ones, and "100 more (--all)", nobody saw it."""
    for name in "ab":
        paths = [(f"$str${number}", f"/{name}/c10/{number}.h\0".encode()) for number in range(20)]
        with_variables(tmp_path, name, *paths, ("table", name.encode()))
    assert cli.main(["kernels", "compare", str(tmp_path / "liba.so"), str(tmp_path / "libb.so")]) == 1
    said = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert said[1] == "variable: sm_90 SummaryOps.cu table: another content"
    assert said[2].startswith("variable: sm_90 SummaryOps.cu __FILE__:0.h: another content (")
    assert said[-1] == "and 11 more (--all)"


def test_a_variable_is_explained_as_a_function_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (with_variables(tmp_path, name, ("table", name.encode())) for name in "ab")
    assert compare.compare_dumps(ours, theirs, witness=with_variables(tmp_path, "c", ("table", b"a"))).ok
    assert not compare.compare_dumps(ours, theirs, witness=with_variables(tmp_path, "d", ("table", b"d"))).ok
    row = compare.KernelExplanation(("built/official",), "another table", data={"SummaryOps.cu": 1})
    monkeypatch.setattr(compare, "load_explanations", lambda: [row])
    assert compare.compare_dumps(ours, theirs, sides="built/official").ok
    more = with_variables(tmp_path, "e", ("table", b"b"), ("more", b"m"))
    assert not compare.compare_dumps(ours, more, sides="built/official").ok


def test_a_dump_that_does_not_tell_paths_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.kernels.xz"
    text = lzma.decompress(dump.pack_dump(with_variables(tmp_path, "a"))).decode()
    old.write_bytes(lzma.compress(text.replace("decouple-kernels 2", "decouple-kernels 1").encode()))
    with pytest.raises(DecoupleError, match="begins with 'decouple-kernels 1'"):
        dump.read_dump(old)


@pytest.mark.parametrize("packing", ["", "lz4", "zstd"])
def test_images_are_read_however_they_are_packed(tmp_path: Path, packing: str) -> None:
    library = built(tmp_path, "x", ONE, packing=packing)
    (image,) = fatbin.read_images(library)
    assert (image.arch, image.ptx, image.compressed) == ("sm_90", False, bool(packing))
    assert [one.code for one in cubin.read_cubin(image.data).functions] == [b"a" * 32, b"b" * 48]


def test_architectures_are_counted_with_ptx_and_specific_ones(tmp_path: Path) -> None:
    image = cubins.cubin(ONE)
    archs = [("sm_80", image), ("sm_90", image), ("sm_90a", image), ("sm_100f", image), ("compute_90", b".version 8.4")]
    library = cubins.library(tmp_path / "libx.so", [cubins.fatbin(archs), cubins.fatbin(archs[:1])])
    assert fatbin.count_images(library) == {"compute_90": 1, "sm_100f": 1, "sm_80": 2, "sm_90": 1, "sm_90a": 1}
    assert dump.dump_libraries([library], "x", ["sm_90"]).architectures() == ("sm_90", "sm_90a")
    assert dump.dump_libraries([library], "x", ["sm_100"]).architectures() == ("sm_100f",)


def for_archs(folder: Path, name: str, *archs: str) -> Path:
    image = cubins.cubin(ONE)
    return cubins.library(folder / f"lib{name}.so", [cubins.fatbin([(arch, image) for arch in archs])])


def test_kernels_of_an_architecture_that_one_side_lacks_are_missing_or_extra(tmp_path: Path) -> None:
    """A flag of two files is all that brings sm_90a: a build that lost it had "19392 of 19392 the same"."""
    official = dump.read_dump(find_kept_dump("2.6.0", "sm_90"))
    without = replace(official, units=tuple(unit for unit in official.units if unit.arch != "sm_90a"))
    found = compare.compare_dumps(without, official)
    lost = {(one.what, one.arch) for one in found.found}
    assert (found.ok, found.total - found.same, lost) == (False, 66, {("missing", "sm_90a")})
    assert not compare.compare_dumps(official, without).ok
    one, both = for_archs(tmp_path, "a", "sm_90"), for_archs(tmp_path, "b", "sm_90", "sm_90a")
    assert cli.main(["kernels", "compare", str(one), str(both)]) == 1
    ours, theirs = dump.dump_libraries([one], "a"), dump.dump_libraries([both], "b")
    assert compare.compare_dumps(ours, theirs, part=True).count("missing") == 2, "of a source that ours has"


def test_what_was_not_compared_is_named_where_nobody_chose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, both = for_archs(tmp_path, "a", "sm_90"), for_archs(tmp_path, "b", "sm_80", "sm_90", "compute_90")
    assert cli.main(["kernels", "compare", str(one), str(both)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["       not compared: sm_80"]
    assert cli.main(["kernels", "compare", str(one), str(both), "--arch", "sm_90"]) == 0
    assert "not compared" not in capsys.readouterr().out


def test_an_architecture_that_was_asked_for_has_to_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library, kept = for_archs(tmp_path, "a", "sm_90"), tmp_path / "a.kernels.xz"
    with pytest.raises(DecoupleError, match="no machine code for sm_80, only sm_90"):
        dump.dump_libraries([library], "a", ["sm_80", "sm_90"])
    kept.write_bytes(dump.pack_dump(dump.dump_libraries([library], "kept")))
    asked = ["kernels", "compare", str(kept), str(kept), "--arch"]
    assert cli.main([*asked, "sm_90"]) == 0
    assert cli.main([*asked, "sm_80", "--arch", "sm_90"]) == 1
    assert "kept: no machine code for sm_80, only sm_90" in capsys.readouterr().err
    assert cli.main(["kernels", "host", str(library), "--arch", "sm_80"]) == 1
    assert "no machine code for sm_80, only sm_90" in capsys.readouterr().err


def test_a_kept_dump_is_the_dump_and_always_the_same_bytes(tmp_path: Path) -> None:
    made = dump.dump_libraries([built(tmp_path, "x", ONE)], "x")
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(dump.pack_dump(made))
    assert dump.read_dump(tmp_path / "one") == made
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_is_no_dump_no_library_or_has_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DecoupleError, match="no dump of kernels"):
        dump.read_dump(tmp_path / "text")
    with pytest.raises(DecoupleError, match="not a readable ELF file"):
        fatbin.count_images(tmp_path / "text")
    library = built(tmp_path, "x", ONE)
    with pytest.raises(DecoupleError, match="sm_80, only sm_90"):
        dump.dump_libraries([library], "x", ["sm_80"])
    other = dump.dump_libraries([built(tmp_path, "y", ONE, arch="sm_80")], "y")
    with pytest.raises(DecoupleError, match="sm_90 and sm_80"):
        compare.compare_dumps(dump.dump_libraries([library], "x"), other)


def test_a_container_that_is_not_understood_is_an_error_and_not_skipped(tmp_path: Path) -> None:
    good = cubins.fatbin([("sm_90", cubins.cubin(ONE))])
    library = cubins.library(tmp_path / "libx.so", [good[:4] + b"\x02" + good[5:]])
    with pytest.raises(DecoupleError, match="no fatbin container"):
        fatbin.count_images(library)


def test_a_damaged_image_is_told(tmp_path: Path) -> None:
    packed = bytearray(cubins.fatbin([("sm_90", cubins.cubin(ONE))], "zstd"))
    packed[16 + 72] ^= 0xFF
    library = cubins.library(tmp_path / "libx.so", [bytes(packed)])
    with pytest.raises(DecoupleError, match="a damaged image"):
        list(fatbin.read_images(library))


def test_the_host_registers_every_kernel_and_names_what_it_calls(tmp_path: Path) -> None:
    image = [cubins.fatbin([("sm_90", cubins.cubin(ONE))])]
    names = [one.name for one in ONE]
    whole = cubins.library(tmp_path / "liba.so", image, registers=names, calls=["cudaMalloc", "malloc_it"])
    assert host_symbols.read_host_symbols(whole, ["sm_90"]) == host_symbols.HostSymbols(
        frozenset({"cudaMalloc"}), 1, 2, ()
    )
    forgotten = cubins.library(tmp_path / "libb.so", image, registers=names[:1])
    assert host_symbols.read_host_symbols(forgotten, ["sm_90"]).unregistered == (ONE[1].name,)


def test_how_a_function_differs_is_counted_in_instructions(tmp_path: Path) -> None:
    ours, theirs = bytes(range(48)), bytes(range(16)) + b"!" * 16 + bytes(range(32, 48))
    paths = [built(tmp_path, "a", [Made(ONE[0].name, ours)]), built(tmp_path, "b", [Made(OTHER[0].name, theirs)])]
    found = compare.compare_dumps(*(dump.dump_libraries([path], path.name) for path in paths)).found
    (seen,) = code_diff.compare_code(paths[:1], paths[1:], found)
    assert (seen.ours, seen.theirs, seen.moved, seen.foreign, seen.first[0]) == (3, 3, 1, 1, 1)


def test_one_more_than_was_explained_explains_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = compare.KernelExplanation(("built/official",), "a line number", code={"SummaryOps.cu": 1})
    monkeypatch.setattr(compare, "load_explanations", lambda: [row])
    ours = dump.dump_libraries([built(tmp_path, "a", [Made(ONE[0].name, b"!" * 32), ONE[1]])], "a")
    both = dump.dump_libraries([built(tmp_path, "c", [Made(one.name, b"!" * 16) for one in ONE])], "c")
    theirs = dump.dump_libraries([built(tmp_path, "b", OTHER)], "b")
    assert compare.compare_dumps(ours, theirs, sides="built/official").ok
    assert not compare.compare_dumps(ours, theirs, sides="built/monolith").ok
    assert not compare.compare_dumps(both, theirs, sides="built/official").ok


def test_what_a_third_build_has_as_ours_is_the_other_sides_difference(tmp_path: Path) -> None:
    """Debian's monolith differs from ours in hundreds of functions, the official wheel in nearly none of them."""
    mine, more = Made("_Z4minev", b"m" * 16), Made("_Z4morev", b"c" * 16)
    sides = {
        "ours": [*ONE, mine],
        "theirs": [Made(OTHER[0].name, b"!" * 32), OTHER[1], more],
        "official": [*OTHER, mine],
    }
    ours, theirs, official = (dump.dump_libraries([built(tmp_path, name, made)], name) for name, made in sides.items())
    assert {one.what for one in compare.compare_dumps(ours, theirs).found} == {"code", "missing", "extra"}
    found = compare.compare_dumps(ours, theirs, witness=official)
    assert found.ok and {one.reason for one in found.found} == {"official is as ours"} and found.same == 1
    planted = dump.dump_libraries([built(tmp_path, "planted", [Made(ONE[0].name, b"?" * 32), ONE[1], mine])], "planted")
    (fault,) = [one for one in compare.compare_dumps(planted, theirs, witness=official).found if not one.reason]
    assert (fault.what, fault.file) == ("code", "SummaryOps.cu")
    assert not compare.compare_dumps(ours, theirs, witness=theirs).ok


@pytest.mark.parametrize("lost", ["another code", "missing"])
def test_a_witness_of_another_cub_speaks_for_the_function_of_that_name(tmp_path: Path, lost: str) -> None:
    """Neither ours nor the official wheel had the monolith's mangled name, so both counted as alike."""
    scan = {cub: f"_ZN3cub13CUB_{cub}_NS4scanEv" for cub in ("200200", "200302")}
    good, bad = ([ONE[0], Made(scan["200302"], code * 16)] for code in (b"g", b"b"))
    sides = {
        "ours": ONE[:1] if lost == "missing" else bad,
        "monolith": [OTHER[0], Made(scan["200200"], b"g" * 16)],
        "official": good,
    }
    ours, theirs, official = (dump.dump_libraries([built(tmp_path, name, made)], name) for name, made in sides.items())
    (fault,) = compare.compare_dumps(ours, theirs, witness=official).found
    assert (fault.what, fault.reason) == ("missing" if lost == "missing" else "code", "")
    (known,) = compare.compare_dumps(ours, theirs, witness=replace(ours, label="official")).found
    assert known.reason == "official is as ours"


def test_a_library_of_any_size_is_read_off_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kernels compare LIB official:2.6 --arch sm_80` was refused: one answer of 543 MiB was more than any has."""
    monkeypatch.setattr(remote_zip, "MOST", 32 << 20)
    library, wheel = built(tmp_path, "torch_cuda", ONE, "sm_80"), tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBERS[0], library.read_bytes() + os.urandom(33 << 20))
        archive.writestr("torch/version.py", "")
    with FaultyServer({"/torch.whl": wheel}) as server:
        file = RemoteFile(wheel.name, (server.url("/torch.whl"),), None, None)
        with fetch_members(file, MEMBERS, tmp_path / "cache", Downloader(tmp_path / "cache")) as (found,):
            assert dump.dump_libraries([found], "official").architectures() == ("sm_80",)
        with (
            pytest.raises(DecoupleError, match=r"has no torch/lib/libx\.so"),
            fetch_members(file, ["torch/lib/libx.so"], tmp_path / "cache", Downloader(tmp_path / "cache")),
        ):
            pass


def test_the_dump_that_is_kept_has_the_variants_of_its_architecture(tmp_path: Path) -> None:
    """`--arch sm_90a`, and sm_90 given twice, fetched the library from the index."""
    release, offline = load_release(find_project(), "2.6"), Downloader(tmp_path, offline=True)
    for archs, there in ((["sm_90a"], ("sm_90a",)), (["sm_90", "sm_90"], ("sm_90", "sm_90a"))):
        assert load_official_dump(release, archs, tmp_path, offline).architectures() == there


def test_a_witness_that_has_a_lost_function_in_another_file_is_not_as_ours(tmp_path: Path) -> None:
    moved = Made("_ZN2at42_GLOBAL__N__12345678_9_Reduce_cu_123456783maxEv", b"r" * 16)
    ours = dump.dump_libraries([built(tmp_path, "ours", ONE)], "ours")
    theirs = dump.dump_libraries([built(tmp_path, "theirs", [*OTHER, moved])], "theirs")
    elsewhere = cubins.fatbin([("sm_90", cubins.cubin([moved]))])
    both = [cubins.fatbin([("sm_90", cubins.cubin(OTHER))]), elsewhere]
    official = dump.dump_libraries([cubins.library(tmp_path / "libofficial.so", both)], "official")
    assert [one.what for one in compare.compare_dumps(ours, theirs).found] == ["missing"]
    assert not compare.compare_dumps(ours, theirs, witness=official).ok


def test_what_two_hosts_ask_for_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = [cubins.fatbin([("sm_90", cubins.cubin(ONE))])]
    one, other = (
        cubins.library(tmp_path / f"lib{name}.so", image, registers=[made.name for made in ONE], calls=calls)
        for name, calls in (("a", ["cudaMalloc"]), ("b", ["cudaMalloc", "cublasCreate_v2"]))
    )
    assert cli.main(["kernels", "host", str(one), str(one)]) == 0
    assert cli.main(["kernels", "host", str(one), str(other)]) == 1
    assert "only theirs asks for: cublasCreate_v2" in capsys.readouterr().out


def test_a_kernel_that_the_host_does_not_register_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = [cubins.fatbin([("sm_90", cubins.cubin(ONE))])]
    whole = cubins.library(tmp_path / "liba.so", image, registers=[made.name for made in ONE])
    forgotten = cubins.library(tmp_path / "libb.so", image, registers=[ONE[0].name])
    assert cli.main(["kernels", "host", str(whole)]) == 0
    assert cli.main(["kernels", "host", str(forgotten)]) == 1
    assert capsys.readouterr().out.count("not registered: ") == 1
    assert cli.main(["kernels", "host", str(whole), str(forgotten)]) == 1


def test_a_registered_name_may_stand_behind_a_number_and_need_not_be_mangled(tmp_path: Path) -> None:
    """As in the official libtorch_cuda.so and libtorch_cuda_linalg.so: 21 and 23 of their kernels were missed."""
    kernels = [ONE[0], Made("chemv_kernel_U", ONE[0].code)]
    image = [cubins.fatbin([("sm_90", cubins.cubin(kernels))])]
    library = cubins.library(tmp_path / "liba.so", image, registers=[f"?{made.name}" for made in kernels])
    assert host_symbols.read_host_symbols(library, ["sm_90"]).unregistered == ()


def test_compare_prints_how_many_are_the_same_and_ends_with_1_where_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = built(tmp_path, "a", ONE), built(tmp_path, "b", [OTHER[0], Made(OTHER[1].name, b"c" * 48)])
    kept = tmp_path / "b.kernels.xz"
    assert cli.main(["kernels", "dump", str(other), "-o", str(kept), "--label", "theirs"]) == 0
    assert cli.main(["kernels", "compare", str(one), str(one)]) == 0
    assert cli.main(["kernels", "compare", str(one), str(kept)]) == 1
    said = capsys.readouterr().out
    assert "1 of 2 the same (50.00 %), 1 different" in said and "cub::" in said
