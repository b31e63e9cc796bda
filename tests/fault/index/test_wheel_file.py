"""A wheel file from anywhere: whatever it holds, one line says what is wrong, in bounded time and memory."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.index import archive, catalog, provenance, site, wheel
from tests.unit.index.wheels import SERIES_A, make_manifest, make_pair, make_wheel

NAME = "torch-2.6.0+decoupled.1-py3-none-any.whl"
INFO = "torch-2.6.0+decoupled.1.dist-info"


def row(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def rebuilt(folder: Path, change: Callable[[dict[str, bytes]], None], record: Callable[[str], str] = str) -> Path:
    """A core wheel whose members ``change`` changed, with a true RECORD that ``record`` changed after that."""
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(make_wheel(folder / "whole", "torch", "2.6.0+decoupled.1")) as source:
        for name in source.namelist():
            members[name] = source.read(name)
    del members[f"{INFO}/RECORD"]
    change(members)
    text = record("".join(row(name, data) for name, data in members.items()) + f"{INFO}/RECORD,,\n")
    path = folder / NAME
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        warnings.simplefilter("ignore")
        for name, data in [*members.items(), (f"{INFO}/RECORD", text.encode("utf-8", "surrogatepass"))]:
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def unchanged(members: dict[str, bytes]) -> None:
    """As it is."""


@pytest.mark.parametrize("release", ["2.7", "2.7.0rc3", "main-2026-11-20", "acme-2.7"])
def test_a_wheel_of_a_release_that_has_a_name_of_its_own(tmp_path: Path, release: str) -> None:
    """It was refused as one whose manifest is of another release."""
    made = replace(make_manifest("torch", "2.7.0rc3+decoupled", None, SERIES_A), release=release)
    read = wheel.read_wheel(make_wheel(tmp_path, "torch", made.version, manifest=made.to_json()))
    assert read.manifest.release == release
    other = replace(made, release="2.6").to_json()
    with pytest.raises(DecoupleError, match=r"for 2\.6, not of"):
        wheel.read_wheel(make_wheel(tmp_path, "torch", made.version, manifest=other))


@pytest.mark.parametrize(
    "more",
    [
        "torch/gone.py,sha256=AAAA,3\n",
        "/etc/passwd,sha256=AAAA,3\n",
        "../../x.pth,sha256=AAAA,3\n",
        "torch/../../x.pth,sha256=AAAA,3\n",
        "./torch/__init__.py,sha256=AAAA,3\n",
        "torch//__init__.py,sha256=AAAA,3\n",
        "Torch/__init__.py,sha256=AAAA,3\n",
        "torch\\__init__.py,sha256=AAAA,3\n",
        "torch/\x00__init__.py,sha256=AAAA,3\n",
        "torch/__init__.py,sha256=AAAA,3\n",
        "only two,columns\n",
        '"never ended\n',
        "\udcff,sha256=AAAA,3\n",
        ",,\n",
        f"{'a/' * 3000}x,sha256=AAAA,3\n",
    ],
)
def test_a_row_that_no_member_has_or_that_is_there_twice_is_refused(tmp_path: Path, more: str) -> None:
    path = rebuilt(tmp_path, unchanged, lambda text: text + more)
    with pytest.raises(DecoupleError, match="RECORD does not hold"):
        wheel.read_wheel(path)


@pytest.mark.parametrize(
    "record",
    [
        lambda text: "".join(line for line in text.splitlines(True) if "__init__" not in line),
        lambda text: text.replace("sha256=", "md5=", 1),
        lambda text: text.replace("sha256=", "shake_128=", 1),
        lambda text: text.replace(f"{INFO}/RECORD,,", f"{INFO}/RECORD,sha256=AA,2"),
        lambda text: "".join(f"{line.split(',')[0]},,\n" for line in text.splitlines()),
        lambda text: text.replace(",sha256", f",{'9' * 5000}sha256", 1),
        lambda text: f"{text.splitlines()[0]}{'0' * 5000}\n" + "".join(text.splitlines(True)[1:]),
        lambda _: "",
    ],
    ids=["not listed", "md5", "shake", "of itself", "no hashes", "odd hash", "5,000 digits", "empty"],
)
def test_a_record_that_says_too_little_is_refused(tmp_path: Path, record: Callable[[str], str]) -> None:
    with pytest.raises(DecoupleError, match="RECORD does not hold"):
        wheel.read_wheel(rebuilt(tmp_path, unchanged, record))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("./torch/__init__.py", "not spelled plainly"),
        ("torch//__init__.py", "not spelled plainly"),
        ("torch/./x.py", "not spelled plainly"),
        ("Torch/__INIT__.py", "stands in the wheel twice"),
        ("torch/__init__.py/x.py", "is a file, and"),
        ("TORCH/__init__.py/", "is a file, and"),
        ("torch/cafe\u0301.py", None),
        ("torch/\x1b[2J.py", "control character"),
        ("/x.py", "leaves the folder"),
        ("torch/../x.py", "leaves the folder"),
        ("C:x.py", "leaves the folder"),
        (f"torch/{'x' * 300}.py", "too long"),
        ("Torch-2.6.0+decoupled.1.DIST-INFO/entry_points.txt", "stands|one .dist-info"),
        ("other-1.dist-info/METADATA", r"one \.dist-info"),
    ],
)
def test_a_member_that_two_installers_read_differently_is_refused(tmp_path: Path, name: str, told: str | None) -> None:
    path = rebuilt(tmp_path, lambda members: members.update({name: b""}))
    if told is None:
        assert wheel.read_wheel(path).name == "torch"
        return
    with pytest.raises(DecoupleError, match=told):
        wheel.read_wheel(path)


def test_two_members_whose_names_differ_in_the_spelling_of_a_letter_are_refused(tmp_path: Path) -> None:
    path = rebuilt(tmp_path, lambda members: members.update({"torch/caf\u00e9": b"", "torch/cafe\u0301": b""}))
    with pytest.raises(DecoupleError, match="twice"):
        wheel.read_wheel(path)


def test_nul_in_a_name_which_zipfile_itself_drops_is_refused(tmp_path: Path) -> None:
    path = rebuilt(tmp_path, lambda members: members.update({"torch/abcd.py": b""}))
    path.write_bytes(path.read_bytes().replace(b"torch/abcd.py", b"torch/\0bcd.py"))
    with pytest.raises(DecoupleError, match="control character"):
        wheel.read_wheel(path)


@pytest.mark.parametrize("member", ["METADATA", "decouple.json", "RECORD"])
def test_a_member_that_claims_three_gigabytes_is_refused_unread(tmp_path: Path, member: str) -> None:
    """The size stands in the archive, so nothing of it is unpacked; checked in a process of 512 MiB."""
    path = rebuilt(tmp_path, unchanged)
    data, size = path.read_bytes(), 3 << 30
    at = data.rindex(f"{INFO}/{member}".encode()) - 46  # the entry in the central directory
    path.write_bytes(data[: at + 24] + struct.pack("<I", size) + data[at + 28 :])
    done = limited(f"from decouple.index import wheel; wheel.read_wheel(Path({str(path)!r}))")
    assert "DecoupleError" in done and "more than 100 times as much" in done


def test_metadata_within_the_wheels_bound_and_beyond_its_own_is_refused(tmp_path: Path) -> None:
    path = rebuilt(tmp_path, lambda members: members.update({f"{INFO}/METADATA": bytes(archive.TEXT_BOUND + 1)}))
    with pytest.raises(DecoupleError, match=f"METADATA.*{archive.TEXT_BOUND + 1}"):
        wheel.read_wheel(path)


def test_a_member_that_unpacks_to_three_hundred_times_its_size_is_refused_in_512_mib(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        with out.open(zipfile.ZipInfo("torch/zeros"), "w", force_zip64=True) as sink:
            for _ in range(300):
                sink.write(zeros)
    with zipfile.ZipFile(path, "a") as out:
        out.getinfo("torch/zeros").compress_type = zipfile.ZIP_DEFLATED
    done = limited(f"from decouple.index import wheel; wheel.read_wheel(Path({str(path)!r}))")
    assert "DecoupleError" in done and ("100 times" in done or "dist-info" in done)


def test_a_directory_that_claims_200_mib_is_refused(tmp_path: Path) -> None:
    path = rebuilt(tmp_path, unchanged)
    data = path.read_bytes()
    path.write_bytes(data[:-10] + struct.pack("<II", 200 << 20, 0) + b"\0\0")
    with pytest.raises(DecoupleError, match="209715200"):
        wheel.read_wheel(path)


def large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel whose end is written as that of an archive of 4 GiB or 65,536 members is (zip64)."""
    with monkeypatch.context() as patched:
        patched.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
        path = rebuilt(folder, unchanged)
    assert b"PK\6\6" in path.read_bytes()
    return path


def test_a_wheel_of_more_than_4_gib_is_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(tmp_path, monkeypatch)
    assert wheel.read_wheel(path).name == "torch"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path / "site")]
    subprocess.run([*pip, str(path)], check=True, capture_output=True)


def test_the_directory_of_a_large_wheel_has_the_same_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(tmp_path, monkeypatch)
    data = path.read_bytes()
    at = data.rindex(b"PK\6\6") + 40
    path.write_bytes(data[:at] + struct.pack("<Q", 200 << 20) + data[at + 8 :])
    with pytest.raises(DecoupleError, match="209715200"):
        wheel.read_wheel(path)


@pytest.mark.parametrize("where", [0, 1 << 63, -8, 8])
def test_a_large_wheels_end_is_where_every_reader_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: int
) -> None:
    """Python takes the one before the locator, others the one that the locator names."""
    path = large(tmp_path, monkeypatch)
    data = path.read_bytes()
    at = data.rindex(b"PK\6\7") + 8
    true = struct.unpack("<Q", data[at : at + 8])[0]
    path.write_bytes(data[:at] + struct.pack("<Q", true + where if abs(where) == 8 else where) + data[at + 8 :])
    with pytest.raises(DecoupleError, match="zip64"):
        wheel.read_wheel(path)


def test_a_wheel_is_no_larger_than_an_index_may_offer(tmp_path: Path) -> None:
    path = rebuilt(tmp_path, unchanged)
    with path.open("r+b") as file:
        file.truncate(archive.WHEEL_BOUND + 1)
    with pytest.raises(DecoupleError, match=str(archive.WHEEL_BOUND)):
        wheel.read_wheel(path)


def test_encryption_and_unknown_compression_are_refused(tmp_path: Path) -> None:
    whole = rebuilt(tmp_path, unchanged).read_bytes()
    at = whole.rindex(b"torch/__init__.py") - 46
    for offset, value, told in ((8, 1, "encrypted"), (10, 99, "method 99"), (10, 14, "method 14")):
        path = tmp_path / NAME
        path.write_bytes(whole[: at + offset] + struct.pack("<H", value) + whole[at + offset + 2 :])
        with pytest.raises(DecoupleError, match=told):
            wheel.read_wheel(path)


def test_a_flipped_bit_is_refused_or_changes_nothing_that_is_read(tmp_path: Path) -> None:
    """A bit of every eleventh byte of the archive: a clear refusal, or a wheel that reads as the same one."""
    path = rebuilt(tmp_path, unchanged)
    whole, good = path.read_bytes(), wheel.read_wheel(path)
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            read = wheel.read_wheel(path)
        except DecoupleError:
            continue
        assert (read.metadata, read.manifest) == (good.metadata, good.manifest)


MANIFEST = json.loads(make_manifest("torch", "2.6.0+decoupled.1", None, SERIES_A).to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"arch_list": [1]},
        {"arch_list": "9.0"},
        {"arch_list": None},
        {"flags": []},
        {"times": 3},
        {"toolchain": None},
        {"sources": ["x"]},
        {"sources": {}},
        {"upstream": {"version": 3}},
        {"cuda": "12.4\x1b[2J"},
        {"cuda": 12},
        {"release": "../../2.6"},
        {"release": "2.7"},
        {"version": "2.6.0"},
        {"series": {"digest": SERIES_A, "patches": [["x"]]}},
        {"series": {"digest": SERIES_A, "patches": [{"path": 1}]}},
        {"overlay": []},
        {"schema": 1.5},
    ],
    ids=str,
)
def test_a_manifest_of_wrong_types_is_refused_before_anything_is_published(
    tmp_path: Path, change: dict[str, object]
) -> None:
    data = json.dumps({**MANIFEST, **change}).encode()
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", manifest=data)
    with pytest.raises(DecoupleError, match=r"manifest|decouple\.json"):
        site.build_site(tmp_path / "dist", tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"schema": ' + b"9" * 5000 + b"}", b'{"x": "\\ud800"}', b"\xff", b"", b"null"]
)
def test_a_manifest_that_is_no_json_is_refused(tmp_path: Path, data: bytes) -> None:
    path = make_wheel(tmp_path, "torch", "2.6.0+decoupled.1", manifest=data)
    with pytest.raises(DecoupleError, match=r"manifest|schema"):
        wheel.read_wheel(path)


@pytest.mark.parametrize(
    "line", [b"Name: other", b"Version: 2.7.0", b"Requires-Dist: torch=!", b"Requires-Python: what", b"Summary: \xff"]
)
def test_metadata_that_says_two_things_or_nothing_sane_is_refused(tmp_path: Path, line: bytes) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[f"{INFO}/METADATA"] = line + b"\n" + members[f"{INFO}/METADATA"]

    path = rebuilt(tmp_path, change)
    with pytest.raises(DecoupleError, match="METADATA"):
        wheel.read_wheel(path)


@pytest.mark.parametrize(
    "envelope",
    [
        b"3",
        b"[]",
        b"{}",
        b'{"payload": 3, "payloadType": 4, "signatures": 5}',
        b'{"payload": "AA==", "payloadType": "x", "signatures": [3]}',
        b'{"payload": "AA==", "payloadType": "x", "signatures": {"a": 1}}',
        b"[" * 100_000,
        b"\x00",
    ],
)
def test_an_envelope_that_is_none_is_refused(tmp_path: Path, envelope: bytes) -> None:
    read = wheel.read_wheel(make_wheel(tmp_path, "torch", "2.6.0+decoupled.1"))
    public = provenance.make_key(tmp_path / "key")
    with pytest.raises(DecoupleError, match=r"DSSE|not signed"):
        provenance.verify_statement(read, envelope, public)


@pytest.mark.parametrize("payload", [b"3", b"[]", b"null", b'{"subject": []}', b'{"subject": 3}', b"{", b"[" * 100_000])
def test_a_rightly_signed_statement_of_nothing_is_refused(tmp_path: Path, payload: bytes) -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    read = wheel.read_wheel(make_wheel(tmp_path, "torch", "2.6.0+decoupled.1"))
    public = provenance.make_key(tmp_path / "key")
    envelope = Envelope(payload, provenance.PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(provenance._load_key(tmp_path / "key", "private")))
    with pytest.raises(DecoupleError, match=r"DSSE|another file"):
        provenance.verify_statement(read, json.dumps(envelope.to_dict()).encode(), public)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1" * 5000},
        {"version": "what"},
        {"filename": "../x.whl"},
        {"arch_list": [3]},
        {"arch_list": 3},
        {"sha256": 3},
        {"sha256": "../x"},
        {"size": "3"},
        {"cuda": 12},
        {"yanked": False},
        {"signed": "yes"},
    ],
    ids=str,
)
def test_a_catalog_that_was_edited_is_named_and_not_crashed_on(tmp_path: Path, change: dict[str, object]) -> None:
    make_pair(tmp_path / "dist")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    path = tmp_path / "site" / catalog.FOLDER / "2.6.json"
    document = json.loads(path.read_bytes())
    document["files"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(DecoupleError, match=r"2\.6\.json: files\[0\]"):
        site.build_site(tmp_path / "dist", tmp_path / "site")


def test_a_small_wheel_may_hold_a_member_that_compresses_a_thousandfold(tmp_path: Path) -> None:
    """Machine code compresses three- to fourfold; a member of zeros a thousandfold, and alone it may."""
    path = make_wheel(
        tmp_path, "torch", "2.6.0+decoupled.1", extra_members={"torch/zeros": bytes(zips.GROWTH_FREE // 2)}
    )
    assert wheel.read_wheel(path).size > zips.GROWTH_FREE // 2


def limited(code: str) -> str:
    """What a Python of 512 MiB and 10 seconds says of ``code``."""
    limits = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)); from pathlib import Path; "
    )
    done = subprocess.run(
        [sys.executable, "-c", limits + code], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stderr
