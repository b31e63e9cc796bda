"""Files that we wrote ourselves, damaged: each reader does without, or says in one line which file and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base import seal
from decouple.base.errors import DecoupleError
from decouple.build import effort, inputs, root_record, rootfs
from decouple.build.effort import Effort
from decouple.device import scaffold
from decouple.flows import bisect
from decouple.flows import record as recording
from decouple.prebuilt.kernel_folder import Halves
from decouple.rebase import rebase_state
from decouple.release import status
from decouple.stack.journal import StackState
from decouple.upstream import readers, tree_record, unpacked_release
from decouple.verify import stage1_units

DAMAGE = [
    b"", b"{", b"{}", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"[[]]", b"[1]",
    b"[{}]", b'[{"file": 1}]', b'[{"file": "x.cpp", "directory": "/d", "command": "\\""}]', b"9" * 5000,
    b'[{"file": "x.cpp", "directory": "/d", "command": "cc x.cpp"}]', b'{"digest": 1}', b'{"digest": "d"}',
    b'{"digest": "d", "seconds": "x"}', b'{"digest": "d", "seconds": 1, "compiled": []}', b'{"version": 1}',
    b'{"schema": 1, "stage1": 3}', b'{"bootstrap": 1, "layers": []}', b'{"bootstrap": true, "layers": {"a": 1}}',
    b'{"summary": {"vendors": {"cuda": {"key_number": {"before": [], "after": null}}}}}',
    b'{"summary": {"vendors": {}}}', b'{"name": "x", "files": [1]}', b"\0",
    b'{"path": "tree", "debian": null, "files": [3], "notes": []}', b'{"packages": [], "releases": 3}',
]  # fmt: skip


def unzipped(path: Path) -> object:
    """What an earlier check kept is a zip with a listing in JSON."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as store:
        store.writestr("modes.json", path.read_bytes())
    path.write_bytes(seal.add_seal(path.name, out.getvalue()) or b"")
    return readers.read_cache(path, ["x"])


def provenance(path: Path) -> object:
    path.rename(path.with_name(unpacked_release.RECORD))
    return unpacked_release.read_record(path.parent)


def of_root(path: Path) -> object:
    path.rename(path.with_name("done.json"))
    return rootfs._read_done(path.parent)


def of_scaffold(path: Path) -> object:
    path.rename(path.with_name(scaffold.RECORD))
    return scaffold._read_record(path.parent, "acme", "PrivateUse1")


def of_packages(path: Path) -> object:
    path.rename(path.with_name(root_record.NAME))
    return root_record.read_record(path.parent)


def of_halves(path: Path) -> object:
    (path.parent / "kernels").mkdir()
    path.rename(path.parent / "kernels/kernels.json")
    return Halves(path.parent, 0).read_origin()


def of_tree(path: Path) -> object:
    path.rename(path.with_name(tree_record.RECORD))
    return tree_record.read_known_files(path.parent / "tree")


READERS: dict[str, Callable[[Path], object]] = {
    "bisect's list of commands": lambda path: bisect.find_touched_objects(path, ["x.cpp"]),
    "effort of a build": lambda path: effort.accumulate_effort(path, "d", Effort(1.0, 1, 1)),
    "stamp of a stage": inputs.read_stamp,
    "layers of a root": of_root,
    "packages of a root": of_packages,
    "origin of kernels": of_halves,
    "status of a release": status.read_status,
    "a census": lambda path: recording._read_census_section(path, "2.6", ""),
    "units of stage 1": stage1_units.read_units,
    "the scaffold's record": of_scaffold,
    "what a check kept": unzipped,
    "provenance of a tree": provenance,
    "content of a tree": of_tree,
    "a rebase under way": rebase_state.load_state,
    "state of the stack": lambda path: StackState.from_json(path.read_text("latin-1")),
}


@pytest.mark.parametrize("reader", READERS)
def test_damage_is_told_in_one_line(reader: str, tmp_path: Path) -> None:
    for number, data in enumerate(DAMAGE):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "damaged.json"
        path.write_bytes(data)
        try:
            READERS[reader](path)
        except DecoupleError as error:
            assert "\n" not in error.what, data[:60]
            assert error.next_step or reader == "state of the stack", data[:60]
        except Exception as error:
            raise AssertionError(f"{data[:60]!r}: {type(error).__name__}: {error}") from error


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    listing = [
        {"file": "/s/a.cpp", "directory": "/b", "command": "cc -o a.o a.cpp"},
        {"file": "/s/b", "directory": "/b"},
    ]
    (tmp_path / "list.json").write_text(json.dumps(listing))
    assert bisect.find_touched_objects(tmp_path / "list.json", ["a.cpp"]) == ["a.o"]
    first = effort.accumulate_effort(tmp_path / "effort", "d", Effort(1.0, 2, 3))
    assert effort.accumulate_effort(tmp_path / "effort", "d", Effort(1.0, 2, 3)) == first + first
    assert effort.accumulate_effort(tmp_path / "effort", "other", Effort(1.0)) == Effort(1.0)
