"""What others could hand us, by the ten thousand: one generator for each reader, and what no input may do.

An attack gives hypothesis a strategy and a check; `run` feeds it. Whatever comes in, a reader returns or raises
DecoupleError; it writes nowhere outside the folder it was given, and is back within `SECONDS`.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import hashlib
import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import parse_json
from decouple.index import catalog, dependencies, provenance, wheel
from decouple.index.remote import Index, _Answer
from decouple.patch import header, lint, series_file
from decouple.release.wheel_manifest import WheelManifest
from decouple.stack import commits
from decouple.stack.journal import StackState
from decouple.upstream import dsc, manifests, pypi
from decouple.upstream.unpack import Limits, unpack_tar
from tests.support import foreign
from tests.support.series import make_usual_world
from tests.support.templates import make_once

SECONDS = 10.0
"""No reader may compute longer for one input, its children included; how busy a machine is does not matter."""
PATIENCE = 30
"""How many times that a reader may take by the clock: it then waits for something."""

# ---- pieces

NASTY_TEXT = st.one_of(
    st.sampled_from(
        [
            "", ".", "..", "/", "//x", "../../../../tmp/x", "/tmp/x", "a/../../b", "\0", "a\0b", "\x1b[2J", "\u202e",
            "\\..\\x", "C:\\x", "file:///dev/zero", "http://[::1", "http://u:p@h/", "javascript:x", "A" * 300,
            "9" * 5000, "1e999", "\ud800", "torch", "torch-2.6.0-py3-none-any.whl", "2.6.0+x", "$(id)", "%2e%2e%2f",
            "{}", "NaN", "true",
        ]
    ),
    st.text(max_size=12),
)  # fmt: skip
NASTY_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**4000),
        st.floats(),
        NASTY_TEXT,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY_TEXT, inner, max_size=3),
    max_leaves=5,
)


NEARLY = st.sampled_from(
    [
        None, True, False, 0, 1, 100, 10**6, -1, "", "a" * 64, "b" * 64, "A" * 64, "a" * 63, "0" * 40, "torch", "Torch",
        "torch-cuda", "torch_cuda", "2.6", "2.6.0", "2.6.0+decoupled.1", "2.6.0+decoupled.2", "2.6.0+cu124", "12.4",
        "torch-2.6.0+decoupled.1-py3-none-any.whl", "torch-2.6.0+decoupled.2-py3-none-any.whl",
        "torch-2.6.0+decoupled.1-cp313-cp313-linux_x86_64.whl", "torch-2.6.0+decoupled.1-py3-none-any.whl.metadata",
        "torch_cuda-2.6.0+cu124-py3-none-any.whl", "torch-2.6.0.tar.gz", "https://example.org/files/torch-2.6.0-py3-none-any.whl",
        "../../files/2.6/torch-2.6.0%2Bdecoupled.1-py3-none-any.whl", "//example.org/x.whl", "http://example.org:99999/",
        ">=3.9", ">=3.9,<4", "==3.*", "broken upload", [], {}, [{}], ["2.6.0", "2.7.0"], ["9.0", "8.0"],
        {"sha256": "a" * 64}, {"sha256": "a" * 64, "md5": "0" * 32}, {"sha256": None},
    ]
)  # fmt: skip
"""Values of the right kind in the wrong place, which get further than nonsense does."""


def places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a document."""
    yield at
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*at, key))


def replaced(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at ``at``."""
    if not at:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[at[0]] = replaced(document[at[0]], at[1:], value)
    return copy


def _changed(document: Any, at: tuple[Any, ...], how: str, value: Any, key: str) -> Any:
    """One thing of a document replaced, left out, said twice, or said beside what is there."""
    if how in ("near", "nasty"):
        return replaced(document, at, value)
    holder = document
    for step in at[:-1]:
        holder = holder[step]
    if isinstance(holder, dict):
        other: Any = {k: v for k, v in holder.items() if how != "gone" or k != at[-1]}
        if how != "gone":
            other[key] = value
    else:
        other = [*holder[: at[-1]], *holder[at[-1] + (how == "gone") :]]
        if how != "gone":
            other.append(holder[at[-1]] if how == "twice" else value)
    return replaced(document, at[:-1], other)


@st.composite
def changed_json(draw: st.DrawFn, document: Any) -> bytes:
    """A document with up to three values replaced, as bytes that may be damaged as well."""
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 1, 2, 4]))):
        inside = [at for at in places(document) if at]
        if not inside:
            break
        at = draw(st.sampled_from(sorted(inside, key=len)[len(inside) // 3 :]))  # rather a leaf than the whole
        how = draw(st.sampled_from(["near", "near", "near", "nasty", "gone", "twice", "more"]))
        document = _changed(document, at, how, draw(NASTY_JSON if how == "nasty" else NEARLY), draw(NASTY_TEXT))
    sys.set_int_max_str_digits(0)
    try:
        data = json.dumps(document).encode()
    finally:
        sys.set_int_max_str_digits(4300)
    return draw(damaged(data))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes as they are, or cut, flipped, repeated, nested deeply."""
    how = draw(st.sampled_from(["whole"] * 12 + ["cut", "flip", "flip", "insert", "deep", "repeat"]))
    at = draw(st.integers(0, max(0, len(data) - 1)))
    if how == "cut":
        return data[:at]
    if how == "flip" and data:
        return data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
    if how == "insert":
        return data[:at] + draw(st.binary(max_size=8)) + data[at:]
    if how == "deep":
        return data[:at] + b"[" * 100_000 + data[at:]
    if how == "repeat":
        return data[:at] + data
    return data


TOKENS = [
    json.dumps(value).encode() for value in ("", "..", "/etc/passwd", "a" * 64, "torch", "\0", "2.6.0", -1, 0, 1e400)
]
TOKENS += [b"null", b"true", b"{}", b"[]", b"9" * 5000, b'"\\ud800"', b"[" * 2000, b"../", b"\0", b"\xff", b"\r\n"]
_LITERAL = re.compile(rb'"[^"\\]*"|-?[0-9]+|true|false|null|[a-zA-Z_.]{2,}')
NEIGHBOURS = 9
"""How many inputs are made of each that hypothesis makes: cheap ones, a few bytes apart."""


def around(value: Any, dice: random.Random) -> Iterator[Any]:
    """An input, and where it is text or bytes some that differ from it in a literal, a bit, a piece."""
    yield value
    packed = isinstance(value, tuple)
    raw = value[1] if packed else value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes) or len(raw) > 1 << 20:
        return
    literals = [] if packed else [found.span() for found in _LITERAL.finditer(raw[:20_000])]
    for _ in range(NEIGHBOURS):
        data = raw
        for _ in range(dice.choice((1, 1, 2))):
            at = dice.randrange(len(data) + 1)
            to = min(len(data), at + dice.choice((1, 2, 8, 64)))
            how = dice.choice((0, 0, 0, 0, 0, 3, 4, 5, 6))
            if how < 3 and literals and data is raw:
                at, to = dice.choice(literals)
                data = data[:at] + dice.choice(TOKENS) + data[to:]
            elif how == 3 and at < len(data):
                data = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
            elif how == 4:
                data = data[:at] + data[to:]
            elif how == 5:
                data = data[:to] + data[at:to] + data[to:]
            else:
                data = data[:at] + dice.choice(TOKENS) + data[at:]
        yield (value[0], data) if packed else data.decode("utf-8", "replace") if isinstance(value, str) else data


# ---- the attacks


@dataclass(frozen=True)
class Attack:
    """``inputs`` for ``reader``, which is given one and an empty folder of its own."""

    inputs: st.SearchStrategy[Any]
    reader: Callable[[Any, Path], object]
    neighbours: bool = True
    """Whether inputs a few bytes apart make sense."""
    each: Callable[[Any], int] = lambda value: 1
    """How many inputs a value is, for a reader that takes many at once; ``about``: how many in the mean."""
    about: int = 1
    seconds: float = SECONDS
    """How long a value may be computed at."""
    counted: str = ""
    """What is counted, where it is not the values."""
    prepare: Callable[[], object] = lambda: None
    """Called once before: what it writes is no reader's."""


SHA = "a" * 64
ROW = {
    "filename": "torch-2.6.0+decoupled.1-py3-none-any.whl",
    "url": "../../files/2.6/torch-2.6.0%2Bdecoupled.1-py3-none-any.whl",
    "hashes": {"sha256": SHA},
    "size": 100,
    "requires-python": ">=3.9",
    "core-metadata": {"sha256": SHA},
    "yanked": False,
}
PAGE = {"meta": {"api-version": "1.1"}, "name": "torch", "versions": ["2.6.0"], "files": [ROW, ROW]}
FRONT = {"meta": {"api-version": "1.1"}, "projects": [{"name": "torch"}, {"name": "torch-cuda"}]}


class Served(Index):
    """An index on a server that answers every question with the same bytes."""

    def __init__(self, body: bytes) -> None:
        super().__init__("https://example.org/simple/")
        self._body = body

    def _read_answer(self, url: str, bound: int) -> _Answer:
        assert url.startswith("https://example.org/simple/"), f"asked for {url}"
        return _Answer(self._body, url)


def json_page(body: bytes, folder: Path) -> None:
    page = Served(body).read_project_json("torch")
    assert all(offer.project == "torch" and "/" not in offer.filename for offer in page.offers)
    assert all(offer.url.startswith(("http://", "https://")) for offer in page.offers)
    assert all(offer.sha256 is None or len(offer.sha256) == 64 for offer in page.offers)


def html_page(body: bytes, folder: Path) -> None:
    page = Served(body).read_project_html("torch")
    assert all(offer.url.startswith(("http://", "https://")) and "/" not in offer.filename for offer in page.offers)


@st.composite
def html(draw: st.DrawFn) -> bytes:
    attributes = ["href", "data-yanked", "data-requires-python", "data-core-metadata", "data-dist-info-metadata", "x"]
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        tag = draw(st.sampled_from(["a", "a", "a", "base", "meta", "!--", "script", "a" * 500]))
        given_ = "".join(
            f' {draw(st.sampled_from(attributes))}="{draw(NASTY_TEXT)}"' for _ in range(draw(st.integers(0, 3)))
        )
        parts.append(f"<{tag}{given_}>{draw(NASTY_TEXT)}" + draw(st.sampled_from([f"</{tag}>", "", ">" * 10])))
    text = "<html><body>" + "".join(parts) * draw(st.sampled_from([1] * 20 + [200]))
    return draw(damaged(text.encode("utf-8", "surrogatepass")))


def front_page(body: bytes, folder: Path) -> None:
    Served(body).list_projects()


def pypi_page(body: bytes, folder: Path) -> None:
    try:
        text = body.decode()
        found = pypi._parse_json(text, "https://pypi.org/simple/torch/")
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        return  # what `pypi.wheels` tells in one line
    assert all(one.file.urls[0].startswith("http") and "/" not in one.file.name for one in found)


MANIFEST = {
    "schema": 1,
    "release": "2.6",
    "project": "torch",
    "version": "2.6.0+decoupled.1",
    "upstream": {"tag": "v2.6.0", "commit": "0" * 40},
    "sources": [{"name": "o", "url": "https://example.org", "size": 1, "sha256": SHA}],
    "series": {"digest": SHA, "patches": [{"path": "2.6/0001-x.patch", "sha256": SHA}]},
    "overlay": {"digest": SHA},
    "tree": "f" * 40,
    "cuda": None,
    "arch_list": ["9.0"],
    "toolchain": {"gcc": "14"},
    "flags": {},
    "environment": {},
    "times": {},
}
INFO = "torch-2.6.0+decoupled.1.dist-info"
WHEEL = "torch-2.6.0+decoupled.1-py3-none-any.whl"
METADATA = b"Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0+decoupled.1\nRequires-Python: >=3.9\n\n"


def wheel_manifest(body: bytes, folder: Path) -> None:
    read = WheelManifest.from_json(body, "hostile")
    json.dumps(list(read.arch_list) + list(read.flags))
    read.to_json()


@st.composite
def wheel_file(draw: st.DrawFn) -> bytes:
    """A zip with true or false RECORD, odd names, kinds and packing, perhaps damaged."""
    members: dict[str, bytes] = {
        "torch/__init__.py": b"x = 1\n",
        f"{INFO}/METADATA": draw(damaged(METADATA)),
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{INFO}/decouple.json": draw(st.one_of(*[st.just(json.dumps(MANIFEST).encode())] * 3, changed_json(MANIFEST))),
    }
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        members[draw(NASTY_NAMES)] = draw(st.binary(max_size=20))
    rows = []
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    rows.append(f"{INFO}/RECORD,,")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        rows.insert(draw(st.integers(0, len(rows))), f"{draw(NASTY_NAMES)},{draw(NASTY_TEXT)},{draw(NASTY_TEXT)}")
    members[f"{INFO}/RECORD"] = ("\n".join(rows) + "\n").encode("utf-8", "surrogatepass")
    out = io.BytesIO()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in members.items():
                info = zipfile.ZipInfo("x", (1980, 1, 1, 0, 0, 0))
                info.filename = name.encode("utf-8", "replace").decode()  # as zipfile would write any name
                info.compress_type = draw(st.sampled_from([0] * 6 + [8] * 12 + [12, 14]))
                info.external_attr = draw(
                    st.sampled_from([0] * 9 + [0o100644 << 16] * 9 + [0o120777 << 16, 0o020644 << 16])
                )
                archive.writestr(info, data)
    return draw(damaged(out.getvalue()))


NASTY_NAMES = st.one_of(
    st.sampled_from(
        [
            "../x", "/tmp/x", "./torch/__init__.py", "torch//__init__.py", "Torch/__init__.py", "torch/__init__.py/x",
            "torch", "torch/", "a\\b", "C:x", f"{INFO}/RECORD", f"{INFO}/x", "other-1.dist-info/METADATA", "x" * 300,
            "a/" * 200 + "b", "a\nb", "caf\u00e9", "cafe\u0301", "torch/x.py",
        ]
    ),
    NASTY_TEXT.filter(bool),
)  # fmt: skip


def wheel_reader(body: bytes, folder: Path) -> None:
    path = folder / WHEEL
    path.write_bytes(body)
    read = wheel.read_wheel(path)
    assert read.name == "torch"
    with zipfile.ZipFile(path) as archive:  # whatever was let through can be unpacked into a folder
        archive.extractall(folder / "out")
    path.unlink()
    shutil.rmtree(folder / "out")


@st.composite
def tar_file(draw: st.DrawFn) -> tuple[str, bytes]:
    """A tar of odd headers, packed in some way, perhaps damaged."""
    kinds = [tarfile.REGTYPE] * 4 + [
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
    ]
    kinds += [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE, b"z"]
    data = b""
    for _ in range(draw(st.integers(0, 5))):
        info = tarfile.TarInfo(
            draw(st.sampled_from(["top/a", "top/b/c", "top/b", "top/link/x", "top/link"]) | NASTY_NAMES)
        )
        info.type = draw(st.sampled_from(kinds))
        info.linkname = draw(st.sampled_from(["a", "../a", "../../x", "/etc/passwd", "link", ""]))
        content = draw(
            st.sampled_from([b"", b"text\n", b"30 path=../../x\n", b"22 GNU.sparse.major=1\n", b"99999 a=b\n"])
        )
        info.size = draw(st.sampled_from([len(content), len(content), len(content), 3 << 30, 0, 512]))
        info.mode = draw(st.sampled_from([0o644, 0o755, 0o6777]))
        try:
            data += info.tobuf(tarfile.GNU_FORMAT, errors="surrogatepass")
        except ValueError:
            continue
        data += content + b"\0" * (-len(content) % 512)
    data += b"\0" * draw(st.sampled_from([0, 512, 1024, 100_000]))
    packed = draw(st.sampled_from(["", ".gz", ".xz"]))
    if packed == ".gz":
        worker = zlib.compressobj(wbits=31)
        data = worker.compress(data) + worker.flush()
    elif packed == ".xz":
        data = lzma.compress(data, preset=0)
    return packed, draw(damaged(data))


def tar_reader(given_: tuple[str, bytes], folder: Path) -> None:
    packed, data = given_
    archive = folder / f"a.tar{packed}"
    archive.write_bytes(data)
    try:
        unpack_tar(archive, folder / "out", limits=Limits(size=1 << 20, members=100))
    except DecoupleError:
        assert not (folder / "out").exists()
        raise
    for path in (folder / "out").rglob("*"):
        assert path.resolve().is_relative_to(folder.resolve()), f"{path} leads out"
        assert path.is_symlink() or path.is_dir() or path.is_file()
    shutil.rmtree(folder / "out")


TOML = (Path(__file__).parents[2] / "series" / "2.6.toml").read_text(encoding="utf-8")


@st.composite
def toml_text(draw: st.DrawFn, text: str = TOML) -> str:
    lines = text.splitlines()
    values = [
        '""',
        "1",
        "true",
        "[]",
        "{}",
        '"../x"',
        "1979-05-27",
        "nan",
        '"\\u0000"',
        "[[[[",
        '"not known"',
        "-1",
        "9" * 5000,
    ]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key = lines[at].partition("=")[0]
        lines[at] = draw(
            st.one_of(st.sampled_from(values).map(lambda value, key=key: f"{key}= {value}"), st.just(""), NASTY_TEXT)
        )
    return "\n".join(lines)


def is_writable(text: str) -> bool:
    """Whether a file of UTF-8 can hold ``text``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def release_manifest(text: str, folder: Path) -> None:
    if not is_writable(text):
        return
    manifests.parse_manifest(text, Path("series/2.6.toml"))


STATE = {
    "version": 1,
    "release": "2.6",
    "upstream": "1" * 40,
    "base": "2" * 40,
    "applied": [
        {
            "name": "2.6/0001-x.patch",
            "sha256": SHA,
            "commit": "3" * 40,
            "offsets": [{"path": "a", "hunk": 1, "line": 2, "lines": 3}],
        }
    ],
    "overlay": {"commit": "4" * 40, "digest": SHA},
    "source": {"source": "auto"},
}


def state(body: bytes, folder: Path) -> None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    read = StackState.from_json(text)
    assert read.head and read.tip


CATALOG = {
    "schema": 1,
    "release": "2.6",
    "files": [
        {
            "filename": WHEEL,
            "project": "torch",
            "version": "2.6.0+decoupled.1",
            "size": 1,
            "sha256": SHA,
            "metadata_sha256": SHA,
            "manifest_sha256": SHA,
            "series_digest": SHA,
            "requires_python": ">=3.9",
            "cuda": None,
            "arch_list": ["9.0"],
            "yanked": None,
            "signed": True,
        }
    ],
}


def catalog_reader(body: bytes, folder: Path) -> None:
    from decouple.index import landing

    (folder / "2.6.json").write_bytes(body)
    landing.render_page({"2.6": catalog.read_entries(folder / "2.6.json")})


LINKED = {
    "schema": 1,
    "files": [
        {
            "project": "sympy",
            "version": "1.13",
            "filename": "sympy-1.13-py3-none-any.whl",
            "url": "https://example.org/sympy-1.13-py3-none-any.whl",
            "sha256": SHA,
            "requires_python": None,
        }
    ],
}


def linked_reader(body: bytes, folder: Path) -> None:
    (folder / dependencies.FILE).write_bytes(body)
    dependencies.read_links(folder)


def envelope(body: bytes, folder: Path) -> None:
    path, key = _signed()
    provenance.verify_statement(path, body, key)


@st.composite
def signed_envelope(draw: st.DrawFn) -> bytes:
    """An envelope by the right key around an odd statement, or an odd envelope."""
    wheel_read, _ = _signed()
    payload = draw(changed_json(provenance.make_statement(wheel_read)))
    if draw(st.booleans()):
        envelope_ = Envelope(payload, draw(st.sampled_from([provenance.PAYLOAD_TYPE] * 4 + ["text/plain", ""])), {})
        envelope_.sign(_KEPT[2])
        document = envelope_.to_dict()
    else:
        document = ENVELOPE
    return draw(changed_json(document)) if draw(st.booleans()) else json.dumps(document).encode()


ENVELOPE = {"payload": "e30=", "payloadType": provenance.PAYLOAD_TYPE, "signatures": [{"keyid": "a", "sig": "AA=="}]}
_KEPT: list[Any] = []


def _signed() -> tuple[wheel.Wheel, Path]:
    """A wheel and a public key, made once."""
    if not _KEPT:
        from tests.unit.index.wheels import make_wheel

        folder = Path(tempfile.mkdtemp(prefix="decouple-hostile-key-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _KEPT.extend(
            (
                wheel.read_wheel(make_wheel(folder, "torch", "2.6.0+decoupled.1")),
                provenance.make_key(folder / "key"),
                CryptoSigner(provenance.load_private_key(folder / "key")),
            )
        )
    return _KEPT[0], _KEPT[1]


def dsc_reader(text: str, folder: Path) -> None:
    for fields in dsc.parse_paragraphs(dsc.remove_signature(text)):
        dsc.parse_source_files(fields, "hostile")


DSC = f"Format: 3.0 (quilt)\nSource: pytorch\nVersion: 2.6.0\nChecksums-Sha256:\n {SHA} 100 a.tar.xz\n {SHA} 1 b.dsc\n"


@st.composite
def dsc_text(draw: st.DrawFn) -> str:
    lines = DSC.splitlines()
    for _ in range(draw(st.integers(0, 3))):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from([" ", "", "-----BEGIN PGP"])) + draw(NASTY_TEXT)
        )
    return "\n".join(lines)


def plain_json(body: bytes, folder: Path) -> None:
    try:
        parse_json(body)
    except ValueError:
        return


HEADER_LINES = (
    "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n", "From: A <a@example.org>\n",
    "Date: Thu, 2 Jan 2025 03:04:05 +0000\n", "Subject: [PATCH] x\n", "\n", "---\n", "Description: x\n", " more\n",
    " .\n", "text\n", "Decouple-Id: x\n", "Last-Update: 2025-01-02\n", "# HG changeset patch\n", "# User A <a@b>\n",
    "# Date 1 2\n", ">From: A <a@b>\n", "Content-Type: text/plain; charset=ISO-2022-JP\n", "MIME-Version: 1.0\n",
    "Content-Type: multipart/mixed; boundary=x\n", "--x\n", "Content-Transfer-Encoding: base64\n", "\ufeff",
    "Subject: =?UTF-8?q?caf=C3=A9?= =?UTF-16?b?//4=?=\n", "From: =?x?b?=?= <@>\n", "-- >8 --\n", "Author: B\n",
    "# comment\n", "jit: x\n", "Origin: vendor\n", " f | 2 +-\n", "\tfolded\n", "Subject:\n",
    "Date: @99999999999 +9999\n",
    "Date: Mon, 1 Jan 0001 00:00:00 +1400\n", "Last-Update: 0000-00-00\n", "\r\n", "Reviewed-by: x\n", "Index: x\n",
)  # fmt: skip
LETTERS = st.text(st.sampled_from("aAé <>@(),.:;\"'\\=?[]#-\t\r\x00\x1b\udcff\u202e0+"), max_size=12)


@st.composite
def header_text(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(HEADER_LINES), max_size=9))
    for _ in range(draw(st.integers(0, 3)) if lines else 0):
        at = draw(st.integers(0, len(lines) - 1))
        cut = draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + draw(LETTERS) + lines[at][cut:]
    return "".join(lines)


def header_reader(text: str, folder: Path) -> None:
    """A header becomes a commit that git takes, and comes back: as it was, or with what was changed and no more."""
    assert header.parse_header(text).to_text() == text
    lint.lint_patch(text.encode("utf-8", "surrogateescape"), "patches/x.patch")
    commit = commits.parse_commit_text(text, "2.6/0001-x.patch")
    assert re.fullmatch(r"[^<>\n\0]* <[^<>\n\0]*>", commit.author), commit.author
    assert re.fullmatch(r"\d{1,12} [+-]\d{4}", commit.date), commit.date
    assert commit.title and commit.find_trailer(commits.PATCH_TRAILER) == "2.6/0001-x.patch"
    try:
        assert commits.format_header(commit, text) == text
    except DecoupleError:
        return  # a message that holds a line of a diff
    other = commits.CommitText("Zo\u00eb, Q <z@example.org>", "1735787045 -0330", "another title\n\nAnother text.\n")
    again = commits.parse_commit_text(commits.format_header(other, text), "2.6/0001-x.patch")
    assert (again.author, again.date) == (other.author, other.date)
    assert commits.split_message(again.message) == ("another title", "Another text.", [])


def series_reader(text: str, folder: Path) -> None:
    read, problems = series_file.scan_series(text)
    assert read.to_text() == text
    try:
        series_file.parse_series(text)
    except DecoupleError:
        assert problems
    for name in read.names:
        assert not name.startswith("/") and ".." not in name.split("/")


def series_text() -> st.SearchStrategy[str]:
    words = st.sampled_from(
        ("2.6/0001-a.patch", " -p1", " -p0", "#", "\n", "\r\n", "\t", "../x", "/etc/x", "\ufeff", "# c\n")
    )
    return st.lists(st.one_of(words, words, NASTY_TEXT, LETTERS), max_size=12).map("".join)


ATTACKS: dict[str, Attack] = {
    "patch header": Attack(header_text(), header_reader, False),
    "series file": Attack(series_text(), series_reader, False),
    "index page, JSON": Attack(changed_json(PAGE), json_page),
    "index page, HTML": Attack(html(), html_page),
    "front page": Attack(changed_json(FRONT), front_page),
    "PyPI's page": Attack(changed_json(PAGE), pypi_page),
    "wheel": Attack(wheel_file(), wheel_reader),
    "tar": Attack(tar_file(), tar_reader),
    "build manifest": Attack(changed_json(MANIFEST), wheel_manifest),
    "release manifest": Attack(toml_text(), release_manifest),
    "state file": Attack(changed_json(STATE), state),
    "release list": Attack(changed_json(CATALOG), catalog_reader),
    "dependency list": Attack(changed_json(LINKED), linked_reader),
    "signed statement": Attack(signed_envelope(), envelope),
    "list of files in a .dsc": Attack(dsc_text(), dsc_reader),
    "JSON": Attack(changed_json({"a": [1, "x"]}), plain_json),
    "environment variables": Attack(st.integers(0, 2**48), foreign.started, False),
    "settings of git": Attack(
        st.integers(0, 2**48),
        foreign.real_git,
        neighbours=False,
        each=lambda roll: len(foreign.batch(roll)),
        about=foreign.MANY * 7 // 8,
        counted=f"settings; real git is given {foreign.MANY} at once in seven of eight runs, else one",
        seconds=60.0,  # a baseline, a push, a refresh and a pop: some hundred processes of git
        prepare=lambda: make_once(make_usual_world),
    ),
}


@dataclass
class Tally:
    """What a run saw: inputs, in how many calls of the reader, how many of these were refused and in which lines of
    ours, the slowest in seconds, the memory in MiB that the hungriest took."""

    inputs: int = 0
    calls: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: float = 0.0
    lines: set[str] = field(default_factory=set)


def run(attack: Attack, count: int, start: int = 1) -> Tally:
    """Feed ``count`` inputs to one reader. Raises AssertionError with the smallest input that did what none may."""
    tally = Tally()
    each = 1 + NEIGHBOURS if attack.neighbours else 1
    count = max(4, -(-count // attack.about // each))
    attack.prepare()
    _signed()
    with (
        tempfile.TemporaryDirectory(prefix="decouple-hostile-") as where,
        _watched(Path(where)) as outside,
        mock.patch("tempfile.tempdir", where),
        mock.patch("os.fsync"),  # nothing here has to outlive a power cut
    ):
        folder = Path(where)

        @seed(start)
        @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(attack.inputs, st.integers(0, 2**32) if attack.neighbours else st.none())
        def one(value: Any, roll: int | None) -> None:
            for each in (value,) if roll is None else around(value, random.Random(roll)):
                feed(each)

        def feed(value: Any) -> None:
            _forget_peak()
            outside.clear()
            held = _peak()
            began, waited = _computed(), time.monotonic()
            try:
                attack.reader(value, folder)
            except DecoupleError as error:
                tally.refused += 1
                tally.lines.add(_line(error))
                assert error.what
            tally.memory = max(tally.memory, _peak() - held)
            took, waited = _computed() - began, time.monotonic() - waited
            tally.inputs += attack.each(value)
            tally.calls += 1
            tally.slowest = max(tally.slowest, took)
            assert took < attack.seconds, f"computed {took:.1f} s"
            assert waited < attack.seconds * PATIENCE, f"waited {waited:.1f} s"
            assert not outside, f"written outside: {outside}"

        one()
    return tally


def _forget_peak() -> None:
    """Let the most that this process held be what it holds now: hypothesis' own inputs are up to 30 MB (proc(5))."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> float:
    """The most MiB that this process held since then."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _computed() -> float:
    """The seconds that this process and its children have computed."""
    return sum(os.times()[:4])


def _line(error: BaseException) -> str:
    """Where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at else ""


_WRITING = {
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rmdir": 0,
    "os.symlink": 1,
    "os.link": 1,
    "os.truncate": 0,
    "os.chmod": 0,
}
_watching: list[tuple[Path, list[str]]] = []
_hooked: list[bool] = []


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[list[str]]:
    """Every change of the file system that is not below ``folder``, as Python's audit events tell it."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    found: list[str] = []
    _watching.append((folder.resolve(), found))
    try:
        yield found
    finally:
        _watching.pop()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in ("socket.getaddrinfo", "socket.connect"):
        _watching[-1][1].append(f"{event} {arguments[:2]}")
        return
    if event == "open":
        path, _mode, flags = arguments
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        if not isinstance(path, str | bytes) or not (flags or 0) & writing:
            return
        targets = [path]
    elif event == "os.rename":
        targets = [arguments[0], arguments[1]]
    elif event in _WRITING:
        targets = [arguments[_WRITING[event]]]
    else:
        return
    folder, found = _watching[-1]
    for target in targets:
        if isinstance(target, int):
            continue  # below a folder that was opened, as shutil.rmtree does; opening it was looked at
        given_ = Path(os.fsdecode(target))
        place = os.path.normpath(Path.cwd() / given_)
        relative_to_descriptor = not given_.is_absolute() and event in ("os.remove", "os.rmdir", "open")
        if place == os.devnull or "/.hypothesis/" in place or relative_to_descriptor:
            continue
        if not Path(place).is_relative_to(folder) and not place.endswith(".pyc") and "__pycache__" not in place:
            found.append(f"{event} {place}")
