"""Zips that others made, at every place that opens one: too many members, damage, packing that nobody knows."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.build import inputs, variants, wheel_finishing, wheel_split, wheel_thinning
from decouple.build.wheel_pair import pair_wheels
from decouple.index import wheel
from decouple.release.wheel_manifest import WheelManifest
from decouple.upstream import readers
from decouple.upstream.providers import wheel as wheel_provider
from decouple.verify import audit
from tests.support import hostile

NAME = "torch-2.6.0+decoupled.1-py3-none-any.whl"
INFO = "torch-2.6.0+decoupled.1.dist-info"
MANIFEST = WheelManifest.from_json(json.dumps(hostile.MANIFEST).encode(), "a manifest")
WANTED = frozenset({"torch/x.so", f"{INFO}/METADATA"})


def audited(path: Path) -> None:
    with audit.open_folder(path):
        pass


OPENERS: dict[str, Callable[[Path], object]] = {
    "index": wheel.read_wheel,
    "manifest": wheel_finishing.read_manifest,
    "bill of materials": wheel_finishing.count_components,
    "packing": lambda path: wheel_finishing.finish_wheel(path, path.parent / "out", MANIFEST, 0),
    "core to build against": lambda path: inputs.unpack_changed_files(path, path.parent / "out"),
    "split": lambda path: wheel_split.split_wheel(path, path.parent / "out"),
    "pair": lambda path: pair_wheels(path, path, path.parent / "out"),
    "thin": lambda path: wheel_thinning.thin_wheel(path, ["9.0"], path.parent / "out", lambda library, archs: ()),
    "variants": lambda path: variants.make_variants([path], path.parent / "out"),
    "archive of a source": lambda path: readers.read_archive(path, WANTED, None),
    "provider": lambda path: wheel_provider.open_wheel(path, WANTED),
    "audit": audited,
}


def many(path: Path, count: int) -> Path:
    """Write a zip of ``count`` empty members."""
    local, directory, at = [], [], 0
    for number in range(count):
        name = b"%d" % number
        head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0) + name
        entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, at)
        local.append(head)
        directory.append(entry + name)
        at += len(head)
    central = b"".join(directory)
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(central), at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at + len(central), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(central), at, 0)
    path.write_bytes(b"".join((*local, central, end_64, locator, end)))
    return path


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many(tmp_path_factory.mktemp("crowded") / NAME, zips.MEMBER_BOUND + 1)


@pytest.mark.parametrize("opener", OPENERS)
def test_too_many_members_are_refused_before_they_are_read(
    opener: str, crowded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: zipfile.ZipFile) -> None:
        raise AssertionError("the directory was read")

    monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", read)
    with pytest.raises(DecoupleError, match="100001 members"):
        OPENERS[opener](crowded)


def test_as_many_members_as_may_be(tmp_path: Path) -> None:
    with zips.open_zip(many(tmp_path / "a.zip", zips.MEMBER_BOUND)) as archive:
        assert len(archive.infolist()) == zips.MEMBER_BOUND


def spoiled(path: Path, how: str) -> Path:
    """Write a wheel each of whose members cannot be unpacked."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name in (
            "torch/x.so",
            f"{INFO}/METADATA",
            f"{INFO}/{wheel_finishing.MEMBER}",
            f"{INFO}/{wheel_finishing.BOM}",
        ):
            out.writestr(name, b"text " * 100)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as made:
        entries = [info.header_offset for info in made.infolist()]
        at = made.start_dir
    for offset in entries:
        length = int.from_bytes(data[offset + 26 : offset + 28], "little")
        if how == "damaged":
            data[offset + 30 + length] ^= 0x07
        for place, first in ((offset, 6), (at, 8)):
            if how == "encrypted":
                data[place + first] |= 1
            elif how == "unknown method":
                data[place + first + 2] = 99
        at += 46 + length
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("how", ["damaged", "encrypted", "unknown method"])
@pytest.mark.parametrize("opener", OPENERS)
def test_what_cannot_be_unpacked_is_told_in_one_line(opener: str, how: str, tmp_path: Path) -> None:
    with pytest.raises(DecoupleError):
        OPENERS[opener](spoiled(tmp_path / NAME, how))


def test_a_fault_of_ours_is_not_called_damage(tmp_path: Path) -> None:
    path = many(tmp_path / "a.zip", 1)
    with pytest.raises(ValueError, match="ours"), zips.open_zip(path):
        raise ValueError("ours")


def test_a_core_is_not_unpacked_beside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "mine").chmod(0o600)
    with zipfile.ZipFile(tmp_path / NAME, "w") as out:
        out.writestr("../mine", "theirs")
    with pytest.raises(DecoupleError, match="leads out"):
        inputs.unpack_changed_files(tmp_path / NAME, tmp_path / "core")
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
