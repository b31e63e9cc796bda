"""The commands as a publisher and a user type them."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.index import provenance, wheel
from decouple.series.digest import compute_series_digest
from tests.unit.index.wheels import SERIES_B, make_pair, make_wheel

PATCH = b"Decouple-Id: one\n---\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose series 2.6 is one patch."""
    root = tmp_path / "project"
    (root / "patches/2.6").mkdir(parents=True)
    (root / "patches/2.6/0001-one.patch").write_bytes(PATCH)
    (root / "series").mkdir()
    (root / "series/2.6").write_text("2.6/0001-one.patch\n")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(root))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return root


@pytest.fixture
def digest() -> str:
    """The digest of that series, worked out by hand."""
    return hashlib.sha256((hashlib.sha256(PATCH).hexdigest() + "\n").encode()).hexdigest()


@pytest.fixture
def published(project: Path, digest: str, tmp_path: Path) -> str:
    make_pair(tmp_path / "dist", series=digest)
    assert main(["index", "build", str(tmp_path / "dist"), "--site", str(tmp_path / "site")]) == 0
    assert main(["index", "check", str(tmp_path / "site")]) == 0
    return str(tmp_path / "site")


def test_wheels_of_this_checkouts_series_are_fetched(project: Path, published: str) -> None:
    assert main(["wheels", "2.6", "--index", published, "--cuda", "cu124"]) == 0
    assert sorted(path.name.split("-")[0] for path in (project / "dist/2.6").iterdir()) == ["torch", "torch_cuda"]


def test_a_wheel_that_was_built_here_is_not_replaced(
    project: Path, published: str, digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later commands took that of the index for the last build's."""
    built, _ = make_pair(project / "dist/2.6", series=digest, core_members={"torch/own.py": b""})
    before = {path.name: path.read_bytes() for path in built.parent.iterdir()}
    fetch = ["wheels", "2.6", "--index", published, "--cuda", "cu124"]
    assert main(fetch) == 1
    said = capsys.readouterr().err
    assert f"{built}: there already, with other bytes" in said and "--dest FOLDER" in said
    assert {path.name: path.read_bytes() for path in built.parent.iterdir()} == before
    for _ in range(2):  # what was fetched before is no other
        assert main([*fetch, "--dest", str(tmp_path / "fetched")]) == 0


def test_a_dry_run_fetches_nothing(project: Path, published: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wheels", "2.6", "--index", published, "--dry-run"]) == 0
    assert "torch_cuda-2.6.0+cu124.1-py3-none-any.whl  0.0 MiB" in capsys.readouterr().out
    assert not (project / "dist").exists()


def test_a_mirror_serves_when_the_first_index_does_not_answer(
    project: Path, published: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = str(tmp_path / "nothing")
    assert main(["wheels", "2.6", "--index", nothing, "--index", published, "--cuda", "cpu"]) == 0
    assert "asking the next" in capsys.readouterr().err
    assert main(["wheels", "2.6", "--index", nothing, "--cuda", "cpu"]) == 1


def test_wheels_of_another_series_want_to_be_trusted_aloud(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pair(tmp_path / "dist", series=SERIES_B)
    main(["index", "build", str(tmp_path / "dist"), "--site", str(tmp_path / "site")])
    assert main(["wheels", "2.6", "--index", str(tmp_path / "site"), "--cuda", "cpu"]) == 1
    assert "another series" in capsys.readouterr().err
    assert main(["wheels", "2.6", "--index", str(tmp_path / "site"), "--cuda", "cpu", "--trust-index"]) == 0
    assert "WARNING: --trust-index" in capsys.readouterr().err


def test_a_reworded_patch_makes_the_wheels_of_before_another_series(
    project: Path, digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core, _ = make_pair(tmp_path / "dist", series=digest)
    main(["index", "build", str(tmp_path / "dist"), "--site", str(tmp_path / "site")])
    patch = next((project / "patches").rglob("*.patch"))
    patch.write_bytes(b"Why it was reworded.\n" + patch.read_bytes())
    ours = compute_series_digest(project, "2.6")
    assert ours != digest
    assert main(["verify", str(core)]) == 1
    assert f"{digest[:12]}…, this checkout's is {ours[:12]}…" in capsys.readouterr().err
    assert main(["wheels", "2.6", "--index", str(tmp_path / "site"), "--cuda", "cpu"]) == 1
    said = capsys.readouterr().err
    assert f"another series (digest {digest[:12]}…, this checkout's is {ours[:12]}…)" in said


def test_a_wheel_of_a_tree_with_edits_is_not_one_of_the_series(
    project: Path, digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The edits are in the wheel, and in no patch that this checkout could be asked for."""
    core = make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", series=digest, tree=f"{'f' * 40}+0123456789ab")
    assert main(["verify", str(core)]) == 1
    assert "edits that are in no patch" in capsys.readouterr().err
    assert main(["index", "build", str(tmp_path / "dist"), "--site", str(tmp_path / "site")]) == 0
    assert f"WARNING: {core.name}" in capsys.readouterr().err
    fetch = ["wheels", "2.6", "--index", str(tmp_path / "site"), "--cuda", "cpu"]
    assert main(fetch) == 1
    assert "edits that are in no patch" in capsys.readouterr().err
    assert main([*fetch, "--trust-index"]) == 0


def test_a_wheel_is_verified_with_its_key(
    project: Path, digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core, _ = make_pair(tmp_path / "dist", series=digest)
    key = str(tmp_path / "release.key")
    assert main(["index", "key", key]) == 0
    assert main(["verify", str(core), "--key", f"{key}.pub"]) == 1
    assert f"{core.name}.intoto.json: not there" in capsys.readouterr().err
    assert main(["index", "sign", "--key", key, str(core)]) == 0
    assert main(["verify", str(core), "--key", f"{key}.pub"]) == 0
    assert "made from this checkout's series 2.6" in capsys.readouterr().out
    other = str(tmp_path / "other.key")
    main(["index", "key", other])
    assert main(["index", "verify", str(core), "--key", f"{other}.pub"]) == 1


def test_check_fails_on_a_broken_site(published: str, capsys: pytest.CaptureFixture[str]) -> None:
    next(Path(published).glob("files/2.6/torch-*.whl")).write_bytes(b"")
    assert main(["index", "check", published]) == 1
    assert "1 faults" in capsys.readouterr().out


def lose_a_cuda(site: Path) -> None:
    shutil.rmtree(site / "cu124")


def hide_a_project(site: Path) -> None:
    front = site / "simple/index.json"
    front.write_text(re.sub(r',\s*{\s*"name": "torch-cuda"\s*}', "", front.read_text()))
    assert "torch-cuda" not in front.read_text()


def exchange_a_statement(site: Path) -> None:
    (core,) = site.glob("files/2.6/torch-*.whl")
    core.with_name(f"{core.name}.intoto.json").write_text("{}")


def damage_a_page(site: Path) -> None:
    (site / "cu124/simple/torch-cuda/index.html").write_bytes(b"\xff")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_a_cuda, "cu124/simple/torch-cuda/index.html: missing"),
        (hide_a_project, "simple/index.json: not as"),
        (exchange_a_statement, ".intoto.json: a statement of another file, or none"),
        (damage_a_page, "cu124/simple/torch-cuda/index.html: not as"),
    ],
)
def test_check_looks_at_the_whole_site_however_it_is_named(
    published: str, damage: Callable[[Path], None], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(Path(published))
    for address in (published, f"{published}/simple", f"file://{published}", f"file://{published}/cpu/simple"):
        assert main(["index", "check", address]) == 1, address
        assert told in capsys.readouterr().out


def test_check_misses_a_statement_that_the_front_page_names(
    published: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (core,) = (tmp_path / "dist").glob("torch-*.whl")
    provenance.make_key(tmp_path / "release.key")
    provenance.sign_wheel(wheel.read_wheel(core), tmp_path / "release.key")
    assert main(["index", "build", str(tmp_path / "dist"), "--site", published]) == 0
    assert main(["index", "check", published]) == 0
    (Path(published) / "files/2.6" / f"{core.name}.intoto.json").unlink()
    assert main(["index", "check", published]) == 1
    assert f"{core.name}.intoto.json: missing" in capsys.readouterr().out


def test_a_folder_without_wheels_is_a_usage_error(tmp_path: Path) -> None:
    assert main(["index", "build", str(tmp_path)]) == 2


def test_a_file_in_the_place_of_a_folder_is_named_with_the_way_out(
    published: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    [core, backend] = make_pair(tmp_path / "dist")
    for words, next_step in {
        ("index", "build", str(core.parent), "--site", str(tmp_path / "file")): "--site FOLDER",
        ("index", "build", str(core.parent), "--site", str(tmp_path / "file/site")): "--site FOLDER",
        (
            "index",
            "build",
            str(core),
            "--site",
            str(tmp_path / "site"),
        ): f"name the folder of the wheels: {core.parent}",
        ("index", "yank", core.name, "--site", str(tmp_path / "nowhere")): "--site FOLDER",
        ("wheels", "2.6", "--index", published, "--dest", str(tmp_path / "file")): "--dest FOLDER",
        ("repack", "variants", str(backend), "--out", str(tmp_path / "file")): "name a folder",
    }.items():
        assert main(list(words)) == 2
        assert next_step in capsys.readouterr().err.splitlines()[-1]


def test_the_way_out_of_a_published_name_with_other_bytes_leads_out(
    published: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the error says, step by step; the site is not the one that `index yank` takes by itself."""
    dist, root = tmp_path / "a dist", tmp_path / "a site"
    Path(published).rename(root)
    changed = make_pair(dist, series=SERIES_B)
    build = ["index", "build", str(dist), "--site", str(root)]
    assert main(build) == 1
    said = capsys.readouterr().err
    yanks = [shlex.split(words) for words in re.findall("`decouple (index yank [^`]+)`", said)]
    assert [main(words) for words in yanks] == [0, 0]
    assert f"take these files out of {dist}" in said
    for path in changed:
        path.rename(tmp_path / path.name)
    assert "`decouple build 2.6 --revision N`" in said
    make_pair(dist, revision=2, series=SERIES_B)
    assert main(build) == 0
    assert main(["index", "check", str(root)]) == 0
