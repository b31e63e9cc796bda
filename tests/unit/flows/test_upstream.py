"""A patch of a series as commits that upstream could take: what git am makes of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple import cli
from decouple.base.errors import DecoupleError
from decouple.flows.upstream import UpstreamPatches, UpstreamRequest, judge_patches, make_upstream_patches
from decouple.release.manifest_toml import render_manifest
from decouple.series.upstream_commits import NotForUpstreamError
from decouple.upstream.providers.git import GitSource
from tests.support import releases
from tests.support.series import LINES, World, copy_world, git


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The usual world (a relocation, hooks, split), more patches, and their texts."""
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return copy_world(make_world, tmp_path / "world")


def make_world(root: Path) -> World:
    made = World(root)
    made.patch("0001-relocate", {}, moves={"torch/cuda/streams.py": "third_device/torch_cuda/core/streams.py"})
    made.patch("0002-hooks", {"torch/core.py": LINES.replace("line 7\n", "line 7: ask the hook\n")})
    made.patch(
        "0003-helpers",
        {
            "third_device/torch_cuda/core/streams.py": LINES.replace("line 20\n", ""),
            "setup.py": "#!/usr/bin/env python\n" + LINES.replace("line 20\n", "line 20\nline 20, from streams\n"),
        },
    )
    made.patch("0004-answer", {"torch/core.py": LINES.replace("line 7\n", "line 7: ask the hook twice\n")})
    made.patch(
        "0005-bodies",
        {
            "third_device/torch_cuda/core/bodies.py": "line 30\n",
            "torch/core.py": LINES.replace("line 7\n", "line 7: ask the hook twice\n").replace("line 30\n", ""),
        },
    )
    made.patch("0006-name", {"README.md": "A framework, with _CUDAC.\n"})
    made.patch("0007-ours", {"third_device/torch_cuda/core/streams.txt": "ours\n"})
    made.patch("0008-later", {"torch/empty.py": "now = 1\n"})
    folder = made.project / "series/upstream"
    folder.mkdir()
    (folder / "only-here.toml").write_text(
        'schema = 1\n[[name]]\npattern = "_CUDAC"\nis = "the extension module"\n', encoding="utf-8"
    )
    for name in ("hooks", "helpers", "answer", "bodies", "name"):
        (folder / f"{name}.toml").write_text(
            f'schema = 1\nid = "{name}"\ntitle = "Ask: {name}"\nmotivation = "A device asks."\nchange = "One line."\n'
            f'[test]\nfile = "test/test_{name}.py"\nrun = "python test/test_{name}.py"\nfails = "it says so"\n'
            'text = "import torch\\n"\n',
            encoding="utf-8",
        )
    made.patch(
        "0009-both",
        {"third_device/Gemm.cu": "// gemm, ours\n" + LINES},
        moves={"aten/cuda/Gemm.cu": "third_device/Gemm.cu"},
    )
    (made.project / "series/recipes").mkdir()
    (made.project / "series/recipes/later.toml").write_text(
        'schema = 1\nid = "later"\n[[upstream]]\nsince = "2.7: it is there"\nfile = "torch/empty.py"\n'
        'at = [{ line = "^now" }]\n',
        encoding="utf-8",
    )
    return made


def sent(world: World, identity: str, out: Path | None = None) -> UpstreamPatches:
    return make_upstream_patches(UpstreamRequest(world.project, identity, "2.6", source=str(world.upstream), out=out))


def am(world: World, made: UpstreamPatches, clone: Path) -> Path:
    """Upstream's own tree with the mails on top."""
    git(clone.parent, "clone", "-q", str(world.upstream), str(clone))
    git(clone, "am", "-q", *(str(path) for path in made.files if path.suffix == ".patch"))
    return clone


def test_git_am_takes_it_on_upstreams_own_tree_with_its_test(world: World, tmp_path: Path) -> None:
    made = sent(world, "hooks", tmp_path / "out")
    assert [path.name for path in made.files] == ["0001-Ask-hooks.patch", "pull-request.md"]
    tree = am(world, made, tmp_path / "clone")
    assert (tree / "torch/core.py").read_text() == LINES.replace("line 7\n", "line 7: ask the hook\n")
    assert (tree / "test/test_hooks.py").read_text() == "import torch\n"
    assert git(tree, "log", "-1", "--format=%an|%ae|%s|%b").startswith(
        "Ada Lovelace|ada@example.org|Ask: hooks|A device"
    )
    assert "python test/test_hooks.py" in git(tree, "log", "-1", "--format=%b")
    letter = made.files[-1].read_text()
    assert [line for line in letter.splitlines() if line.startswith("#")] == [
        "# Ask: hooks",
        "## Motivation",
        "## Change",
        "## Test",
    ]


def test_the_folder_may_be_named_from_where_one_stands(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git ran elsewhere and wrote the mails there; decouple then found none."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for out in (Path("mine"), Path("../mine")):
        sent(world, "hooks", out)
        assert [path.name for path in sorted(out.iterdir())] == ["0001-Ask-hooks.patch", "pull-request.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "mine", "world"]


def test_what_the_series_moved_is_edited_where_upstream_has_it(world: World, tmp_path: Path) -> None:
    """Else the helpers would be there twice: dropped hunks would leave the old ones in place."""
    made = sent(world, "helpers", tmp_path / "out")
    assert made.commits[0].brought_back == ("torch/cuda/streams.py",)
    tree = am(world, made, tmp_path / "clone")
    assert (tree / "torch/cuda/streams.py").read_text() == LINES.replace("line 20\n", "")
    assert not (tree / "third_device").exists()
    assert (tree / "setup.py").stat().st_mode & 0o100, "its mode is upstream's"


@pytest.mark.parametrize("quoted", [False, True])
def test_a_moved_file_with_a_name_that_is_not_utf_8_is_edited_where_upstream_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quoted: bool
) -> None:
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    world = World(tmp_path / "world", {"torch/caf\udce9.py": LINES})
    world.patch("0001-relocate", {}, moves={"torch/caf\udce9.py": "third_device/caf\udce9.py"})
    edit = world.patch("0002-edit", {"third_device/caf\udce9.py": LINES.replace("line 20\n", "")})
    if not quoted:
        edit.write_bytes(edit.read_bytes().replace(b"\\351", b"\xe9").replace(b'"', b""))
    folder = world.project / "series/upstream"
    folder.mkdir()
    (folder / "edit.toml").write_text(
        'schema = 1\nid = "edit"\nchange = "One line."\n[test]\nfile = "test.py"\nrun = "python test.py"\n'
        'fails = "it says so"\ntext = "import torch\\n"\n'
    )
    made = sent(world, "edit", tmp_path / "out")
    assert made.commits[0].brought_back == ("torch/caf\udce9.py",)
    tree = am(world, made, tmp_path / "clone")
    assert (tree / "torch/caf\udce9.py").read_text() == LINES.replace("line 20\n", "")


def test_earlier_patches_that_it_builds_on_come_first(world: World, tmp_path: Path) -> None:
    made = sent(world, "answer", tmp_path / "out")
    assert [one.title for one in made.commits] == ["Ask: hooks", "Ask: answer"]
    tree = am(world, made, tmp_path / "clone")
    assert "line 7: ask the hook twice\n" in (tree / "torch/core.py").read_text()
    assert "It comes after:\n\n- Ask: hooks" in made.files[-1].read_text()


def needing(world: World, identity: str, patch: str, *, depends: str = "", needs: str = "") -> None:
    """Say of a patch what it needs: in its header, in its text."""
    path, text = world.project / f"patches/2.6/{patch}.patch", world.project / f"series/upstream/{identity}.toml"
    if depends:
        path.write_text(path.read_text().replace("\nForwarded: no\n", f"\nDepends: {depends}\nForwarded: no\n"))
    if needs:
        text.write_text(text.read_text().replace("[test]", f'needs = ["{needs}"]\n[test]'))


def test_upstream_needs_nothing_of_a_patch_that_only_moves_files(world: World, tmp_path: Path) -> None:
    needing(world, "helpers", "0003-helpers", depends="relocate")
    needing(world, "answer", "0004-answer", depends="helpers, hooks", needs="relocate")
    assert [one.title for one in sent(world, "helpers", tmp_path / "out").commits] == ["Ask: helpers"]
    verdicts = judge_patches(UpstreamRequest(world.project, release="2.6", source=str(world.upstream)))
    assert [(one.id, one.needs) for one in verdicts if not one.refused] == [
        ("hooks", ()),
        ("helpers", ()),
        ("answer", ("hooks", "helpers")),
    ]


def test_what_a_needed_patch_edits_while_it_moves_it_is_not_lost(world: World) -> None:
    world.patch("0010-after", {"aten/cpu/Gemm.cpp": "// gemm on the host, as ours\n" + LINES})
    hooks = (world.project / "series/upstream/hooks.toml").read_text()
    (world.project / "series/upstream/after.toml").write_text(hooks.replace("hooks", "after"))
    needing(world, "after", "0010-after", depends="both")
    with pytest.raises(NotForUpstreamError, match="after needs both: it moves aten"):
        sent(world, "after")


def test_a_patch_that_needs_an_unknown_one_is_refused_and_the_list_goes_on(world: World) -> None:
    needing(world, "hooks", "0002-hooks", depends="later")
    needing(world, "helpers", "0003-helpers", needs="hoooks")
    verdicts = judge_patches(UpstreamRequest(world.project, release="2.6", source=str(world.upstream)))
    found = {one.id: one.refused for one in verdicts}
    assert len(found) == 9
    assert found["hooks"] == "hooks: it needs later, and no patch before it has that Decouple-Id"
    assert found["helpers"] == "helpers: it needs hoooks, and no patch before it has that Decouple-Id"


def test_a_patch_without_an_id_is_refused_and_the_list_goes_on(world: World) -> None:
    path = world.project / "patches/2.6/0002-hooks.patch"
    path.write_text(path.read_text().replace("Decouple-Id: hooks\n", ""))
    verdicts = judge_patches(UpstreamRequest(world.project, release="2.6", source=str(world.upstream)))
    found = {one.id: one.refused for one in verdicts}
    assert found["2.6/0002-hooks.patch"] == "2.6/0002-hooks.patch: it has no Decouple-Id"
    assert found["answer"] == "answer needs 2.6/0002-hooks.patch: it has no Decouple-Id"
    assert found["helpers"] == ""


def test_a_needed_patch_that_is_refused_refuses_it(world: World) -> None:
    (world.project / "series/upstream/hooks.toml").write_text('schema = 1\nid = "hooks"\nrefused = "only for us"\n')
    with pytest.raises(NotForUpstreamError, match="answer needs hooks"):
        sent(world, "answer")


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        ("relocate", "relocate: nothing is left of it outside third_device/"),
        ("bodies", r"bodies: what it takes from the core goes to third_device/torch_cuda/core/bodies\.py"),
        ("name", r"name: README\.md would name _CUDAC: the extension module"),
        ("ours", "ours: nothing is left of it"),
        ("both", "both: it moves aten/cuda/Gemm.cu to third_device/ and edits it at once"),
        ("later", "later: upstream did it itself: 2.7: it is there"),
    ],
)
def test_what_is_nothing_for_upstream_is_refused_in_one_line(world: World, identity: str, why: str) -> None:
    with pytest.raises(NotForUpstreamError, match=f"^{why}") as refused:
        sent(world, identity)
    assert "\n" not in str(refused.value)
    assert not (world.project / "build/upstream").exists()


def test_without_a_text_and_a_test_it_is_not_ready(world: World) -> None:
    (world.project / "series/upstream/hooks.toml").unlink()
    with pytest.raises(NotForUpstreamError, match=r"upstream/hooks\.toml"):
        sent(world, "hooks")


def test_a_text_without_a_test_is_a_fault_of_the_text(world: World) -> None:
    (world.project / "series/upstream/hooks.toml").write_text('schema = 1\nid = "hooks"\nchange = "x"\n')
    with pytest.raises(DecoupleError, match=r"hooks\.toml.*`refused`"):
        sent(world, "hooks")


def test_a_tree_that_went_on_is_named_with_the_next_step(world: World, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    (newer / "torch").mkdir(parents=True)
    (newer / "torch/core.py").write_text(LINES.replace("line 7\n", "line seven\n"))
    with pytest.raises(NotForUpstreamError, match=r"hooks.*decouple rebase"):
        make_upstream_patches(UpstreamRequest(world.project, "hooks", "2.6", source=str(newer)))


def test_on_a_tree_that_went_on_every_patch_still_has_its_verdict(world: World, tmp_path: Path) -> None:
    """One that builds on a patch that no longer applies must not end the list."""
    newer = tmp_path / "newer"
    git(tmp_path, "clone", "-q", str(world.upstream), str(newer))
    (newer / "torch/core.py").write_text(LINES.replace("line 7\n", "line seven\n"))
    git(newer, "commit", "-q", "-a", "-m", "went on")
    found = {
        one.id: one.refused for one in judge_patches(UpstreamRequest(world.project, release="2.6", source=str(newer)))
    }
    assert found["hooks"].startswith("hooks does not apply") and found["answer"].startswith("answer does not apply")
    assert found["helpers"] == ""


def test_the_folder_is_made_anew_and_nobody_elses_is_touched(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = [path.read_bytes() for path in sent(world, "answer", out).files]
    (out / "0009-stale.patch").write_text("stale")
    assert [path.read_bytes() for path in sent(world, "answer", out).files] == before, "the same bytes, nothing stale"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes").write_text("mine")
    with pytest.raises(DecoupleError, match="not a folder"):
        sent(world, "hooks", other)
    assert (other / "notes").read_text() == "mine"


def test_the_list_says_of_every_patch_what_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = UpstreamRequest(world.project, release="2.6", source=str(world.upstream))
    assert [verdict.id for verdict in judge_patches(request) if not verdict.refused] == ["hooks", "helpers", "answer"]
    monkeypatch.chdir(world.project)
    assert cli.main(["upstream", "patch", "--release", "2.6", "--on", str(world.upstream)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[3] == "ready  answer, after hooks"
    assert said[0].startswith("no     relocate: ")
    assert cli.main(["upstream", "patch", "bodies", "--release", "2.6", "--on", str(world.upstream)]) == 1


def test_where_no_source_can_be_had_the_option_is_named_that_takes_one(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--source was advised, which `upstream watch` has."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    manifest = render_manifest(releases.manifest(GitSource("https://example.invalid/pytorch.git")))
    (world.project / "series/2.6.toml").write_text(manifest, encoding="utf-8")
    assert cli.main(["upstream", "patch", "hooks", "--release", "2.6", "--offline"]) == 1
    assert "next: run once without --offline, or use --on PATH with what you have" in capsys.readouterr().err
