"""A new backend from the template, and an old one merged with a newer template."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import backend_env
import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.device.scaffold import RECORD, check_name, render_template, scaffold_backend

TEMPLATE = backend_env.THIRD_DEVICE / "template"


def tree(folder: Path) -> dict[str, str]:
    """Every file but the record."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD
    }


def test_a_new_backend_names_itself_everywhere(tmp_path: Path) -> None:
    done = scaffold_backend(TEMPLATE, tmp_path / "torch_acme", "acme")
    assert not done.conflicts and set(done.created) == set(render_template(TEMPLATE, "acme"))
    files = tree(done.folder)
    assert "torch_acme/__init__.py" in files and not any("newdevice" in path + text for path, text in files.items())
    assert not any(re.search(r"\bsim\b(?!::)|torch_sim", path + text) for path, text in files.items())
    assert 'torch_acme = "torch_acme:_autoload"' in files["pyproject.toml"]


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    scaffold_backend(TEMPLATE, tmp_path / "a", "acme")
    before = tree(tmp_path / "a")
    done = scaffold_backend(TEMPLATE, tmp_path / "a", "acme")
    assert tree(tmp_path / "a") == before and set(done.unchanged) == set(before)


def make_template(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_newer_template_merges_like_a_rebase(tmp_path: Path) -> None:
    old = make_template(tmp_path / "old", same="1\n2\n3\n4\n5\n", gone="x\n", kept="x\n", both="a\n", mine="m\n")
    new = make_template(tmp_path / "new", same="1\n2\n3\n4\nfive\n", both="c\n", mine="m\n", added="newdevice\n")
    folder = tmp_path / "torch_acme"
    scaffold_backend(old, folder, "acme")
    (folder / "same").write_text("one\n2\n3\n4\n5\n")
    (folder / "kept").write_text("changed\n")
    (folder / "both").write_text("b\n")
    (folder / "mine").unlink()
    (folder / "own").write_text("own\n")
    done = scaffold_backend(new, folder, "acme")
    assert tree(folder)["same"] == "one\n2\n3\n4\nfive\n" and done.merged == ("same",)
    assert done.removed == ("gone",) and tree(folder)["kept"] == "changed\n"
    assert done.conflicts == ("both",) and "<<<<<<< yours\nb\n" in tree(folder)["both"]
    assert tree(folder)["added"] == "acme\n" and "mine" not in tree(folder) and tree(folder)["own"] == "own\n"
    (folder / "both").write_text("d\n")
    assert not scaffold_backend(new, folder, "acme").conflicts and tree(folder)["both"] == "d\n"


def test_the_line_ends_of_windows_are_no_change_and_stay(tmp_path: Path) -> None:
    old = make_template(tmp_path / "old", mine="1\n2\n3\n4\n5\n", theirs="1\n2\n", gone="x\n", same="1\n")
    new = make_template(tmp_path / "new", mine="1\n2\n3\n4\nfive\n", theirs="1\ntwo\n", same="1\n")
    folder = tmp_path / "torch_acme"
    scaffold_backend(old, folder, "acme")
    (folder / "mine").write_bytes(b"one\n2\n3\n4\n5\n")
    for name in ("mine", "theirs", "gone", "same"):  # as git checks a tree out by core.autocrlf
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    done = scaffold_backend(new, folder, "acme")
    assert (done.merged, done.unchanged, done.removed, done.conflicts) == (("mine", "theirs"), ("same",), ("gone",), ())
    assert (folder / "mine").read_bytes() == b"one\r\n2\r\n3\r\n4\r\nfive\r\n"
    assert (folder / "theirs").read_bytes() == b"1\r\ntwo\r\n"


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    template = make_template(tmp_path / "t", file="x\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").write_text("precious\n")
    with pytest.raises(DecoupleError, match="did not come from the template"):
        scaffold_backend(template, tmp_path / "b", "acme")
    assert (tmp_path / "b" / "file").read_text() == "precious\n"


@pytest.mark.parametrize("name", ["cuda", "Acme", "9x", "a-b", "class", "new", "std", "privateuseone", ""])
def test_bad_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        scaffold_backend(TEMPLATE, tmp_path / "x", name)
    assert not (tmp_path / "x").exists()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "torch_acme"
    scaffold_backend(make_template(tmp_path / "t", file="x\n"), folder, "acme")
    (folder / RECORD).write_text("{}")
    with pytest.raises(DecoupleError, match=RECORD):
        scaffold_backend(tmp_path / "t", folder, "acme")


NAMED = """
import pkgutil, torch, torch.nn.utils.rnn as rnn
kinds = (torch, torch.Tensor, torch.nn.Module, rnn.PackedSequence, torch.UntypedStorage, torch.TypedStorage)
names = {name for kind in kinds for name in dir(kind)} | {one.name for one in pkgutil.iter_modules(torch.__path__)}
print(*{name.removeprefix("is_") for name in names})
"""


def test_no_device_can_be_called_like_what_this_torch_has(interpreter: Path) -> None:
    said = subprocess.run([interpreter, "-c", NAMED], capture_output=True, text=True, check=True, cwd="/").stdout
    names = [name for name in said.split() if re.fullmatch("[a-z][a-z0-9]*", name)]
    assert len(names) > 400
    for name in names:
        with pytest.raises(UsageError):
            check_name(name)
