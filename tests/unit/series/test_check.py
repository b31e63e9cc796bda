"""Check: one status per patch, from folders, archives, git trees and wheels alike."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from decouple import cli
from decouple.base.errors import DecoupleError
from decouple.patch import parse as patch
from decouple.patch.apply import Failure, File, Tree
from decouple.patch.parse import REGULAR, Patch
from decouple.series.check import Conflict, Fit, PatchFit, RuleDifferences, check_series
from decouple.upstream import readers as sources
from decouple.upstream.readers import open_path, read_archive
from tests.support.files import write_files
from tests.support.reader import Reader

LINES = [f"line {number}\n" for number in range(1, 41)]
SOURCE = {"src/f.c": "".join(LINES).encode(), "src/g.c": b"alpha\nbeta\ngamma\n", "empty": b""}


def change(line: int, new: str, name: str = "2.6/0001-x.patch", path: str = "src/f.c", old: str | None = None) -> Patch:
    """A patch that replaces one line of src/f.c."""
    text = f"--- a/{path}\n+++ b/{path}\n@@ -{line - 3},7 +{line - 3},7 @@\n"
    text += "".join(f" {other}" for other in LINES[line - 4 : line - 1]) + f"-{old or LINES[line - 1]}+{new}\n"
    return patch.parse_patch((text + "".join(f" {other}" for other in LINES[line : line + 3])).encode(), name=name)


def statuses(series: list[Patch], files: dict[str, bytes] | None = None, **options: bool) -> list[PatchFit]:
    return check_series(series, Reader((SOURCE if files is None else files).get), **options)


def with_lines(change_at: int, *new: str) -> dict[str, bytes]:
    lines = [*LINES[: change_at - 1], *new, *LINES[change_at:]]
    return SOURCE | {"src/f.c": "".join(lines).encode()}


def test_a_patch_that_applies_elsewhere_is_an_offset_and_not_clean() -> None:
    clean, offset = statuses([change(10, "ten"), change(30, "thirty")], with_lines(20, "a\n", "b\n", "c\n"))
    assert clean.status is Fit.CLEAN
    assert offset.status is Fit.OFFSET and offset.furthest == 2


def test_a_conflict_says_which_hunk_and_what_is_there() -> None:
    (verdict,) = statuses([change(10, "ten")], with_lines(12, "another\n"))
    assert verdict.status is Fit.CONFLICT
    (conflict,) = verdict.conflicts
    assert conflict.failure.number == 1 and conflict.failure.near == 7
    assert conflict.failure.found[5] == b"another\n" and not conflict.present


def test_a_patch_that_is_made_anew_is_no_conflict_and_those_behind_it_see_what_it_made() -> None:
    made = {
        "src/f.c": File(REGULAR, "".join(["ten\n" if n == 10 else line for n, line in enumerate(LINES, 1)]).encode())
    }
    asked: list[str] = []

    def remade(patch: Patch, tree: Tree) -> tuple[Fit, dict[str, File | None]]:
        asked.append(patch.name)
        return Fit.MADE, dict(made)

    series = [change(10, "ten"), change(10, "ELEVEN", name="2.6/0002-y.patch", old="ten\n")]
    first, second = check_series(series, Reader(with_lines(12, "another\n").get), remade=remade)
    assert (first.status, second.status) == (Fit.MADE, Fit.CLEAN)
    assert asked == ["2.6/0001-x.patch"], "only what does not apply is made anew"


def test_of_a_patch_that_is_seen_in_part_nobody_says_that_it_is_made_anew_or_loses_text() -> None:
    hidden = change(10, "ten", path="src/hidden.c").to_text()
    for line, status in ((12, Fit.CONFLICT), (30, Fit.CLEAN)):
        (verdict,) = check_series(
            [patch.parse_patch(change(10, "ten").to_text() + hidden)],
            Reader(with_lines(line, "another\n").get),
            partial=True,
            remade=lambda patch, tree: (Fit.MADE, {}),
            lost=lambda patch, tree: ["src/f.c: a line goes"],
            ruled=lambda patch: RuleDifferences(moves=("one more file",)),
        )
        assert (verdict.status, verdict.unseen) == (status, ("src/hidden.c",))


def test_what_rules_do_not_settle_is_told_beside_what_does_not_apply() -> None:
    stop = Conflict("new.cu", Failure("rules", "no rule places it"))
    (verdict,) = check_series(
        [change(10, "ten")],
        Reader(with_lines(12, "another\n").get),
        ruled=lambda patch: RuleDifferences(stops=(stop,)),
    )
    assert verdict.status is Fit.CONFLICT
    assert [conflict.path for conflict in verdict.conflicts] == ["new.cu", "src/f.c"]


def test_a_patch_that_upstream_took_and_one_half_taken() -> None:
    (verdict,) = statuses([change(10, "ten")], with_lines(10, "ten\n"))
    assert verdict.status is Fit.UPSTREAM
    both = patch.parse_patch(
        change(10, "ten").to_text() + b"--- a/src/g.c\n+++ b/src/g.c\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+b\n gamma\n"
    )
    (half,) = statuses([both], with_lines(10, "ten\n"))
    assert half.status is Fit.CONFLICT and half.conflicts[0].present


def test_where_context_repeats_nobody_can_tell() -> None:
    """The block is there twice, changed in one place: the patch applies to the one, its reverse to the other."""
    block = b"if (x) {\n  one();\n  two();\n  three();\n}\n"
    files = {"f": b"start\n" + block + block.replace(b"two", b"2")}
    text = b"--- a/f\n+++ b/f\n@@ -2,5 +2,5 @@\n if (x) {\n   one();\n-  two();\n+  2();\n   three();\n }\n"
    (verdict,) = statuses([patch.parse_patch(text)], files)
    assert verdict.status is Fit.AMBIGUOUS


def test_a_change_of_mode_alone_is_not_ambiguous() -> None:
    text = b"diff --git a/empty b/empty\nold mode 100644\nnew mode 100755\n"
    (verdict,) = statuses([patch.parse_patch(text)])
    assert verdict.status is Fit.CLEAN


def test_a_file_that_is_gone() -> None:
    (verdict,) = statuses([change(10, "ten", path="src/nope.c")])
    assert verdict.status is Fit.GONE and "src/nope.c" in verdict.conflicts[0].failure.message


def test_patches_see_each_other_and_failures_that_follow_say_so() -> None:
    first, second = change(10, "ten", "1"), change(10, "TEN", "2", old="ten\n")
    assert [verdict.status for verdict in statuses([first, second])] == [Fit.CLEAN, Fit.CLEAN]
    broken = statuses([first, second], with_lines(8, "another\n"))
    assert [verdict.status for verdict in broken] == [Fit.CONFLICT, Fit.CONFLICT]
    assert [verdict.after for verdict in broken] == [(), ("1",)]


def test_patches_laid_under_the_series() -> None:
    (verdict,) = check_series([change(10, "TEN", old="ten\n")], Reader(SOURCE.get), under=[change(10, "ten")])
    assert verdict.status is Fit.CLEAN


def test_a_source_that_lacks_files_says_nothing_about_them() -> None:
    move = patch.parse_patch(
        b"diff --git a/src/f.c b/new/f.c\nsimilarity index 100%\nrename from src/f.c\nrename to new/f.c\n"
        b"diff --git a/src/g.c b/new/g.c\nsimilarity index 100%\nrename from src/g.c\nrename to new/g.c\n"
    )
    later = change(10, "ten", path="new/f.c")
    files = {"src/g.c": SOURCE["src/g.c"]}
    moved, after = statuses([move, later], files, partial=True)
    assert (moved.status, moved.unseen) == (Fit.CLEAN, ("src/f.c",))
    assert (after.status, after.unseen) == (Fit.UNSEEN, ("new/f.c",))
    other = statuses([move, later], {"new/f.c": SOURCE["src/f.c"]}, partial=True)
    assert [verdict.status for verdict in other] == [Fit.UNSEEN, Fit.UNSEEN], "nobody saw what the move makes of it"
    assert statuses([move], files)[0].status is Fit.GONE


# -- sources ---------------------------------------------------------------------------------------------------------


def tar(path: Path, mode: str, top: str = "pytorch-2.6/") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in SOURCE.items():
            info = tarfile.TarInfo(top + name)
            info.size, info.mode = len(data), 0o755 if name == "empty" else 0o644
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo(top + "link")
        link.type, link.linkname = tarfile.SYMTYPE, "src/f.c"
        archive.addfile(link)
    return path


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar.xz", "w:xz"), ("a.tar.gz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.tar", "w")]
)
def test_archives(tmp_path: Path, name: str, mode: str) -> None:
    cache = tmp_path / "cache"
    archive = tar(tmp_path / name, mode)
    for _ in range(2):  # the second time from the cache
        found = read_archive(archive, {"src/f.c", "empty", "nowhere"}, cache)
        assert found.read("src/f.c") == SOURCE["src/f.c"]
        assert (found.mode("empty"), found.mode("src"), found.mode("nowhere")) == (0o100755, 0o040000, None)
        assert found.mode("link") == 0o120000 and found.mode("src/g.c") == REGULAR
    assert read_archive(archive, {"src/g.c"}, cache).read("src/g.c") == SOURCE["src/g.c"]
    assert read_archive(archive, {"src/f.c"}, cache).read("src/f.c") == SOURCE["src/f.c"]
    assert len(list((cache / "check").iterdir())) == 1


def test_a_zip_without_a_folder_on_top(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in SOURCE.items():
            archive.writestr(name, data)
    assert read_archive(tmp_path / "a.zip", {"src/g.c"}, None).read("src/g.c") == SOURCE["src/g.c"]


def test_what_an_archive_was_not_asked_for_is_named(tmp_path: Path) -> None:
    found = read_archive(tar(tmp_path / "x.tar", "w"), ["src/f.c"], None)
    assert found.mode("src/g.c") == REGULAR
    with pytest.raises(DecoupleError, match=r"src/g\.c.*unpack"):
        found.read("src/g.c")


def test_a_damaged_archive_or_cache(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.xz", "w:xz")
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DecoupleError, match=r"cut\.tar\.xz"):
        read_archive(cut, {"src/f.c"}, None)
    read_archive(archive, {"src/f.c"}, tmp_path)
    (kept,) = (tmp_path / "check").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert read_archive(archive, {"src/f.c"}, tmp_path).read("src/f.c") == SOURCE["src/f.c"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with SOURCE and an executable."""
    folder = tmp_path / "repository"
    write_files(folder, SOURCE)
    (folder / "empty").chmod(0o755)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def test_git_trees_and_folders(repository: Path) -> None:
    for revision in ("HEAD", None):
        opened = open_path(repository, revision, (), None)
        found = opened.source
        assert found.read("src/f.c") == SOURCE["src/f.c"] and found.read("src/g.c") == SOURCE["src/g.c"]
        assert (found.mode("empty"), found.mode("src"), found.mode("src/x"), found.mode("empty/x")) == (
            0o100755,
            0o040000,
            None,
            None,
        )
    with pytest.raises(DecoupleError, match="ls-tree"):
        open_path(repository, "nonesuch", (), None)


def test_git_ends_when_the_tree_that_it_was_asked_for_is_no_longer_used(repository: Path) -> None:
    before = set(_children("cat-file"))  # those of tests that failed in a git, whose tracebacks hold the tree
    opened = open_path(repository, "HEAD", (), None)
    assert opened.source.read("src/f.c") == SOURCE["src/f.c"]
    (process,) = set(_children("cat-file")) - before
    del opened
    gc.collect()
    assert not process.exists()


def _children(word: str) -> list[Path]:
    """The processes that this one started with ``word`` in their command, as folders of /proc."""
    of_here = Path("/proc/self/task").glob("*/children")
    every = [Path("/proc") / number for path in of_here for number in path.read_text().split()]
    return [path for path in every if word.encode() in (path / "cmdline").read_bytes()]


def test_a_path_that_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="there is no"):
        open_path(tmp_path / "x", None, (), None)
    (tmp_path / "x").write_text("")
    with pytest.raises(DecoupleError, match="is no archive"):
        open_path(tmp_path / "x", None, (), None)


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_exit_code_says_whether_the_series_applies(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "series").mkdir()
    (tmp_path / "patches" / "2.6").mkdir(parents=True)
    series = {"0001-a": change(10, "ten"), "0002-b": change(30, "thirty", old="no such line\n")}
    (tmp_path / "series" / "2.6").write_text("".join(f"2.6/{name}.patch\n" for name in series))
    for name, one in series.items():
        (tmp_path / "patches" / "2.6" / f"{name}.patch").write_bytes(one.to_text())
    assert cli.main(["check", "2.6", "--source", str(repository)]) == 1
    out = capsys.readouterr().out
    assert "clean            2.6/0001-a.patch" in out
    assert "conflict         2.6/0002-b.patch" in out
    assert "src/f.c: hunk 1 does not apply (patches/2.6/0002-b.patch:3)" in out
    assert "closest at line 27" in out and "< no such line" in out and "> line 30" in out
    assert cli.main(["check", "2.6", "--source", f"{repository}@HEAD", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert [entry["status"] for entry in record] == ["clean", "conflict"]
    assert record[1]["conflicts"][0]["expected"][3] == "no such line"
    (tmp_path / "series" / "2.6").write_text("2.6/0001-a.patch\n")
    (repository / "src/f.c").write_bytes(b"one more\n" + SOURCE["src/f.c"])
    assert cli.main(["check", "2.6", "--source", str(repository)]) == 0
    assert "hunk 1 at line 8, offset +1" in capsys.readouterr().out
    assert cli.main(["check", "2.6", "--source", str(repository), "--strict"]) == 1
    assert cli.main(["check", "2.6", "--source", str(tmp_path / "nope")]) == 1
    assert "there is no" in capsys.readouterr().err


def test_a_source_is_read_only_where_the_series_touches_it() -> None:
    asked: list[str] = []

    class Watched:
        def mode(self, path: str) -> int | None:
            asked.append(path)
            return REGULAR if path in SOURCE else None

        def read(self, path: str) -> bytes:
            return SOURCE[path]

    check_series([change(10, "ten")], Watched())
    assert set(asked) == {"src/f.c", "src"}


def test_files_are_equal_by_content_and_mode() -> None:
    assert File(REGULAR, b"x") == File(REGULAR, lambda: b"x") != File(0o100755, b"x")
    assert sources.is_archive(Path("x.tar.zst")) and not sources.is_archive(Path("x.patch"))


def test_members_larger_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    members = {
        f"t/{at}": bytes([at]) * size for at, size in enumerate((0, 1, 511, 512, 513, 3 << 20, 512, (2 << 20) + 7, 9))
    }
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    for wanted in (members, ["t/7"], ["t/3", "t/8"]):
        names = [name.removeprefix("t/") for name in wanted]
        found = read_archive(tmp_path / "a.tar", names, None)
        assert all(found.read(name) == members[f"t/{name}"] for name in names)
        assert found.list_paths() == [str(at) for at in range(9)]
