"""Names in files that a person may have from others: none leads out of the folder that it is for.

Each reader is given a file that is as we write it but for one name. It refuses the file in one line, and what the name
leads to is neither written nor deleted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import wheel_finishing, wheel_split
from decouple.prebuilt import core_half, installed_torch
from decouple.prebuilt.pairing import Pair, RemoteWheel
from decouple.rebase import rebase_state, resolutions
from decouple.recipes import model
from decouple.release.wheel_manifest import WheelManifest
from decouple.stack import edits
from decouple.stack.engine import Stack
from decouple.stack.journal import StackState
from decouple.upstream import components, unpacked_release
from decouple.upstream.download import Downloader
from tests.support.series import World, git, usual_world
from tests.support.server import FaultyServer
from tests.unit.index.wheels import make_wheel
from tests.unit.prebuilt.test_kernel_folder import write_wheel

ROOT = Path(__file__).parents[3]
LEAD_OUT = ["../victim", "/victim", "a/../../victim", ".git/hooks/post-checkout"]
NOT_A_NAME = ["../victim", "a/b", "-victim", ".", ""]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# ---- the applied tree


def cut_off(world: World, name: str, content: str | None) -> Path:
    """A tree with the journal of a command that was to write ``content`` to ``name`` when it was cut off."""
    own = world.source / ".git/decouple"
    (own / "staged").mkdir(exist_ok=True)
    (own / "staged/0").write_text(content or "")
    head = git(world.source, "rev-parse", "HEAD")
    state = (own / "state.json").read_text()
    record = {
        "verb": "refresh", "old": head, "new": head, "head": head, "index": True, "state": state,
        "files": [{"path": name, "staged": None if content is None else "0"}],
    }  # fmt: skip
    (own / "journal.json").write_text(json.dumps(record))
    return own / "journal.json"


@pytest.mark.parametrize("content", [None, "planted\n"])
def test_a_journal_touches_files_of_the_series_alone(tmp_path: Path, content: str | None) -> None:
    world = usual_world(tmp_path / "world")
    victim = tmp_path / "world" / "project" / "pyproject.toml"
    for place in (str(victim), "pyproject.toml", "patches/../pyproject.toml"):
        victim.write_text("precious\n")
        cut_off(world, place, content)
        with pytest.raises(DecoupleError, match=r"journal\.json: damaged"), Stack.open(world.places):
            pass
        assert victim.read_text() == "precious\n"
        (world.source / ".git/decouple/journal.json").unlink()


def test_a_journal_of_the_series_own_files_is_finished(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    cut_off(world, "patches/2.6/0009-new.patch", "text\n")
    with Stack.open(world.places):
        pass
    assert (world.project / "patches/2.6/0009-new.patch").read_text() == "text\n"


@pytest.mark.parametrize("name", LEAD_OUT)
def test_the_state_of_a_tree_names_patches_below_their_folder(tmp_path: Path, name: str) -> None:
    world = usual_world(tmp_path / "world")
    with Stack.open(world.places) as stack:
        stack.push(1)
    text = (world.source / ".git/decouple/state.json").read_text()
    with pytest.raises(DecoupleError):
        StackState.from_json(text.replace("2.6/0001-relocate.patch", name))


@pytest.mark.parametrize("release", NOT_A_NAME)
def test_the_state_of_a_tree_names_a_release(tmp_path: Path, release: str) -> None:
    text = (usual_world(tmp_path / "world").source / ".git/decouple/state.json").read_text()
    assert '"release": "2.6"' in text
    with pytest.raises(DecoupleError):
        StackState.from_json(text.replace('"release": "2.6"', f'"release": {json.dumps(release)}'))


@pytest.mark.parametrize("identity", ["x/../../../../../victim", "../../../victim", "/victim"])
def test_the_id_of_a_foreign_commit_becomes_part_of_a_name(tmp_path: Path, identity: str) -> None:
    """The commit of a fork, which a person cherry-picked: a trailer of it says what the patch is called."""
    world = usual_world(tmp_path / "a" / "b" / "world")
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "torch/core.py").write_text("other\n")
    git(world.source, "commit", "-qam", f"a change\n\nDecouple-Id: {identity}")
    before = set(tmp_path.rglob("*victim*"))
    with Stack.open(world.places) as stack:
        edits.refresh_patches(stack)
        (name,) = set(stack.applied) - {f"2.6/{one}.patch" for one in ("0001-relocate", "0002-hooks", "0003-split")}
    assert name.startswith("2.6/0004-") and name.count("/") == 1
    assert (world.project / "patches" / name).is_file()
    assert {path for path in tmp_path.rglob("*victim*") if path.parent != world.project / "patches/2.6"} == before


@pytest.mark.parametrize("name", [*LEAD_OUT, "a//b", "x\x01y"])
def test_a_series_names_patches_below_their_folder(tmp_path: Path, name: str) -> None:
    world = usual_world(tmp_path / "world")
    world.series.write_text(f"{name}\n")
    with pytest.raises(DecoupleError, match=r"series/2\.6:1: patch name '"), Stack.open(world.places) as stack:
        stack.push(None)


# ---- what a rebase keeps


@pytest.mark.parametrize("field", ["old", "new"])
@pytest.mark.parametrize("name", NOT_A_NAME)
def test_a_rebase_under_way_names_releases(tmp_path: Path, field: str, name: str) -> None:
    rebase_state.RebaseState("2.6", "2.7", "wheel", False).save(tmp_path / "state.json")
    assert rebase_state.load_state(tmp_path / "state.json") == rebase_state.RebaseState("2.6", "2.7", "wheel", False)
    record = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**record, field: name}))
    with pytest.raises(DecoupleError, match=r"state\.json: damaged"):
        rebase_state.load_state(tmp_path / "state.json")


@pytest.mark.parametrize("tip", ["--upload-pack=touch victim", "HEAD~1", "-h", "x"])
def test_a_rebase_under_way_names_commits_by_their_ids(tmp_path: Path, tip: str) -> None:
    rebase_state.RebaseState("2.6", "2.7", "wheel", False, tip="0" * 40).save(tmp_path / "state.json")
    change(tmp_path / "state.json", "0" * 40, tip)
    with pytest.raises(DecoupleError, match=r"state\.json: damaged"):
        rebase_state.load_state(tmp_path / "state.json")


@pytest.mark.parametrize("path", LEAD_OUT)
def test_a_settled_conflict_names_files_of_the_tree(tmp_path: Path, path: str) -> None:
    settled = resolutions.SettledFile("torch/core.py", lines=("x\n",))
    resolutions.remember_resolution(
        tmp_path / "a.toml", resolutions.Resolution("id", "1.patch", "0" * 40, ("k",), file=(settled,))
    )
    assert resolutions.load_resolutions(tmp_path / "a.toml")[0].file == (settled,)
    change(tmp_path / "a.toml", "torch/core.py", path)
    with pytest.raises(DecoupleError, match=r"a.toml: \$.resolution\[0\].file\[0\].path"):
        resolutions.load_resolutions(tmp_path / "a.toml")


@pytest.mark.parametrize("path", LEAD_OUT)
def test_a_recipe_names_files_of_the_tree(tmp_path: Path, path: str) -> None:
    recipe = tmp_path / "x.toml"
    recipe.write_text(f'schema = 1\nid = "x"\n[[new]]\npath = {json.dumps(path)}\ntext = ""\n')
    with pytest.raises(DecoupleError, match=r"x.toml: \$.new\[0\].path"):
        model.load_recipe(recipe)


# ---- what is fetched


@pytest.mark.parametrize("key", ["folder", "part", "without"])
@pytest.mark.parametrize("path", LEAD_OUT)
def test_a_list_of_components_names_folders_below_third_party(tmp_path: Path, key: str, path: str) -> None:
    listed = tmp_path / "series/third_party/2.6.toml"
    listed.parent.mkdir(parents=True)
    row = {"folder": '"fmt"', "part": '"a"', "without": '["tests"]'}
    row[key] = f"[{json.dumps(path)}]" if key == "without" else json.dumps(path)
    rows = "".join(f"{name} = {value}\n" for name, value in row.items())
    listed.write_text(
        f'schema = 1\nrelease = "2.6"\n[[component]]\n{rows}version = "1"\npin = "not known"\nname = "a.tar.gz"\n'
        f'urls = ["https://example.org/a"]\nsize = 1\nsha256 = "{"0" * 64}"\n'
    )
    with pytest.raises(DecoupleError, match=rf"2.6.toml: \$.component\[0\].{key}"):
        components.load_components(tmp_path, "2.6")


@pytest.mark.parametrize("key", ["path", "debian"])
@pytest.mark.parametrize("path", LEAD_OUT)
def test_the_record_of_an_unpacked_tree_names_folders_beside_it(tmp_path: Path, key: str, path: str) -> None:
    unpacked_release.write_record(
        tmp_path, unpacked_release.UnpackedRelease("debian", "source", tmp_path / "tree", "x", debian=tmp_path / "deb")
    )
    assert unpacked_release.read_record(tmp_path)
    record = json.loads((tmp_path / unpacked_release.RECORD).read_text())
    (tmp_path / unpacked_release.RECORD).write_text(json.dumps({**record, key: path}))
    with pytest.raises(DecoupleError, match="damaged"):
        unpacked_release.read_record(tmp_path)


@pytest.mark.parametrize("name", ["../../victim", "/tmp/decouple-victim", "torch/../../../victim"])
def test_the_members_of_a_wheel_on_a_server_stay_below_their_folder(tmp_path: Path, name: str) -> None:
    """As the wheel's own RECORD lists it, which is all that is compared."""
    with FaultyServer() as server:
        record = write_wheel(tmp_path / "torch.whl", {"torch/version.py": b"", name: b"planted"})
        server.files["/torch.whl"] = tmp_path / "torch.whl"
        size = (tmp_path / "torch.whl").stat().st_size
        wheel = RemoteWheel("torch.whl", server.url("/torch.whl"), size, "ab" * 32, record)
        before = {*tmp_path.rglob("*")}
        with pytest.raises(DecoupleError, match="victim"):
            core_half.make_core_half(
                Pair("C++11", wheel, ()), tmp_path / "out" / "half", Downloader(tmp_path / "cache", attempts=1)
            )
    assert not [path for path in {*tmp_path.rglob("*")} - before if "victim" in path.name]
    assert not Path("/tmp/decouple-victim").exists()


@pytest.mark.parametrize("soname", ["../../victim.so.1", "/tmp/decouple-victim.so"])
def test_a_librarys_own_name_is_that_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soname: str) -> None:
    monkeypatch.setattr(installed_torch, "_query_patchelf", lambda *words: soname)
    with pytest.raises(DecoupleError, match="victim"):
        installed_torch._choose_name(tmp_path / "libpipe.so.0")


# ---- wheels


def rewritten(wheel: Path, **fields: Any) -> Path:
    """The same wheel with other fields in its manifest."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, data in members.items():
        if name.endswith("decouple.json"):
            members[name] = json.dumps({**json.loads(data), **fields}).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return wheel


@pytest.mark.parametrize("field", ["version", "project", "release"])
@pytest.mark.parametrize("name", NOT_A_NAME)
def test_the_manifest_of_a_wheel_says_names(tmp_path: Path, field: str, name: str) -> None:
    wheel = rewritten(make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4"), **{field: name})
    with pytest.raises(DecoupleError, match=rf"\$.{field}"):
        wheel_split.split_wheel(wheel, tmp_path / "out")
    with zipfile.ZipFile(wheel) as archive:
        data = next(archive.read(one) for one in archive.namelist() if one.endswith("decouple.json"))
    with pytest.raises(DecoupleError, match=rf"\$.{field}"):
        WheelManifest.from_json(data, "x")


@pytest.mark.parametrize("name", ["../victim", "/victim", "torch_cuda/../../victim", "a\\b"])
def test_no_wheel_is_made_with_a_member_that_leads_out(tmp_path: Path, name: str) -> None:
    raw = make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4", extra_members={name: b"planted"})
    with pytest.raises(DecoupleError, match=r"victim|a.*b"):
        wheel_finishing.finish_wheel(raw, tmp_path / "out", wheel_finishing.read_manifest(raw), 0)
    assert not list((tmp_path / "out").iterdir())


# ---- the build of stage 2


@pytest.mark.parametrize(("old", "new"), [("../../victim", "a.cu"), ("/victim", "a.cu"), ("a.cu", "../../victim")])
def test_a_relocation_links_nothing_outside_its_folder(tmp_path: Path, old: str, new: str) -> None:
    source, patches, shadow = tmp_path / "src", tmp_path / "patches", tmp_path / "build" / "deep" / "shadow"
    for folder in (source, patches):
        folder.mkdir()
    (source / "a.cu").touch()
    (tmp_path.parent / "victim").touch()
    (patches / "1.patch").write_text(f"rename from {old}\nrename to {new}\n")
    command = [sys.executable, "-m", "torch_cuda_build.relocation", "--source", source, "--patches", patches]
    environment = {"PYTHONPATH": str(ROOT / "third_device/torch_cuda"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*command, "--shadow", shadow], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "victim" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
