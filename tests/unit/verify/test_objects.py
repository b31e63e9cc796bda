"""Objects of the host's compiler, and AMD's device code in them, compared function by function."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.verify.kernels import code_object, host_code
from decouple.verify.kernels.compare import KernelComparison, compare_dumps
from decouple.verify.kernels.dump import KernelDump, KernelUnit
from tests.support.cubins import Made, bundle, library
from tests.support.cubins import code_object as image

pytestmark = pytest.mark.tools("cc")

SOURCE = """
extern void told(const char *file, int line, const char *message);
static int own[] = {1, 2, 3};
int add(int one, int two) { return one + two + own[one & 1]; }
void check(int one) { if (!one) told(__FILE__, __LINE__, "no one"); }
"""


def compiled(folder: Path, source: str) -> KernelUnit:
    folder.mkdir()
    command = ["cc", "-O1", "-fPIC", "-ffunction-sections", "-x", "c", "-c", "-", "-o", str(folder / "it.o")]
    subprocess.run(command, input=source, text=True, check=True)
    return host_code.read_host_object(folder / "it.o", "it.c")


def compared(ours: list[KernelUnit], theirs: list[KernelUnit]) -> KernelComparison:
    return compare_dumps(*(KernelDump(name, (), {}, tuple(units)) for name, units in (("a", ours), ("b", theirs))))


def test_the_same_source_twice_is_the_same(tmp_path: Path) -> None:
    found = compared([compiled(tmp_path / "a", SOURCE)], [compiled(tmp_path / "b", SOURCE)])
    assert (found.total, found.same, found.found, found.archs) == (2, 2, (), ("x86-64",))
    assert (found.data, found.data_same) == (1, 1)


def test_a_header_s_name_in_a_message_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    units = []
    for place in ("core", "tree"):
        header = tmp_path / place / "c10/check.h"
        header.parent.mkdir(parents=True)
        quoted = 'void both(void) { told(__FILE__, 1, "failed at \\"" __FILE__ "\\""); }\n'
        header.write_text(SOURCE + quoted)
        command = ["cc", "-O1", "-fPIC", f"-I{tmp_path / place}", "-x", "c", "-c", "-", "-o", str(tmp_path / "it.o")]
        subprocess.run(command, input="#include <c10/check.h>\n", text=True, check=True)
        units.append(host_code.read_host_object(tmp_path / "it.o", "it.c", [str(tmp_path), str(tmp_path / place)]))
    assert compared(units[:1], units[1:]).same == 3


@pytest.mark.parametrize(
    ("old", "new", "what", "name"),
    [
        ("one + two + own", "one - two + own", "code", "add"),
        ('"no one"', '"nobody"', "launch", "check"),  # the same instructions, another message
        ("extern void", "\nextern void", "code", "check"),  # another line
        ("told(", "said(", "launch", "check"),
    ],
)
def test_what_differs_is_told_by_name(tmp_path: Path, old: str, new: str, what: str, name: str) -> None:
    changed = SOURCE.replace(old, new)
    (fault,) = compared([compiled(tmp_path / "a", changed)], [compiled(tmp_path / "b", SOURCE)]).found
    assert (fault.what, fault.file, fault.name) == (what, "it.c", name)


def device(folder: Path, *functions: Made) -> list[KernelUnit]:
    folder.mkdir()
    path = library(folder / "it.so", [bundle([("gfx90a", image(functions))])], section=".hip_fatbin")
    return code_object.read_device_objects(path, "it.hip")


def test_a_kernel_of_amd_s_is_its_code_its_descriptor_and_its_notes(tmp_path: Path) -> None:
    one, two = Made("one", b"a" * 32), Made("two", b"b" * 48)
    theirs = device(tmp_path / "theirs", one, two)
    moved = compared(device(tmp_path / "moved", two, one), theirs)  # descriptors say how far it is to the code
    assert (moved.archs, moved.total, moved.same) == (("gfx90a",), 2, 2)
    for number, (changed, what) in enumerate(
        [
            (Made("two", b"c" * 48), "code"),
            (Made("two", b"b" * 48, constants=b"\1"), "launch"),
            (Made("two", b"b" * 48, registers=9), "launch"),
        ]
    ):
        (fault,) = compared(device(tmp_path / str(number), one, changed), theirs).found
        assert (fault.what, fault.name) == (what, "two")
    (missing,) = compared(device(tmp_path / "dropped", one), theirs).found
    assert (missing.what, missing.name) == ("missing", "two")


def test_variables_of_the_device_are_judged_and_those_of_the_host_counted(tmp_path: Path) -> None:
    """The patches give classes of the host further functions, so its tables are other ones."""
    for number, (arch, ok) in enumerate([("gfx90a", False), (host_code.ARCH, True)]):
        (theirs,) = device(tmp_path / str(number), Made("one", b"a" * 32))
        theirs = replace(theirs, arch=arch, data=(("table", "0" * 20),))
        found = compared([replace(theirs, data=(("table", "1" * 20),))], [theirs])
        assert (found.same, found.data, found.data_same, found.ok) == (1, 1, 0, ok)


def test_device_code_of_another_layout_is_refused(tmp_path: Path) -> None:
    path = library(tmp_path / "it.so", [b"CCOB" + bytes(60)], section=".hip_fatbin")
    with pytest.raises(DecoupleError, match="its images are compressed"):
        code_object.read_device_objects(path, "it.hip")
