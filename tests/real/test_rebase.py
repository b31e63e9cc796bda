"""The 2.6 series on other real trees: Debian's patched 2.6.0, where nearly all fits, and 1.13.1, where little does.

1.13.1 is older by two years; a rebase backwards is of no use to anybody, but it is real text that conflicts everywhere,
and what the report says of it can be checked against the two trees.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decouple.base.paths import find_cache
from decouple.cli import main
from decouple.release.manifest import RemoteFile
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]

#: From Debian bookworm's pytorch_1.13.1+dfsg-4.dsc.
OLD = RemoteFile(
    "pytorch_1.13.1+dfsg.orig.tar.xz",
    ("http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_1.13.1+dfsg.orig.tar.xz",),
    18331132,
    "d0355588b8528566d477e6ebf1b4d9d036a6fd75711339f66b27472ce5879dc7",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout like this one with a manifest for 1.13 beside that of 2.6."""
    root = tmp_path / "project"
    (root / "series").mkdir(parents=True)
    shutil.copytree(ROOT / "patches", root / "patches")
    for name in ("2.6", "2.6.toml"):
        shutil.copy(ROOT / "series" / name, root / "series" / name)
    text = (ROOT / "series/2.6.toml").read_text()
    for key, value in (("release", "1.13"), ("version", "1.13.1"), ("tag", "v1.13.1")):
        text = re.sub(rf"^{key} = .*$", f'{key} = "{value}"', text, count=1, flags=re.M)
    (root / "series/1.13.toml").write_text(text)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(root))
    yield root


def report(project: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Judge every patch; patch name -> its row of the JSON report."""
    path = project / "report.json"
    main(["rebase", *arguments, "--report", "--format=json", f"--output={path}"])
    return {row["patch"]: row for row in json.loads(path.read_text())["patches"]}


def names(project: Path) -> list[str]:
    return [line for line in (project / "series/2.6").read_text().split("\n") if line and not line.startswith("#")]


def test_nearly_everything_carries_to_debians_patched_tree(project: Path) -> None:
    rows = report(project, "2.6", "2.6", "--debian-patches")
    assert list(rows) == names(project)
    assert {row["verdict"] for row in rows.values()} <= {"unmodified", "offset"}


def test_a_backwards_rebase_reports_truly(project: Path) -> None:
    tarball, _ = Downloader(find_cache()).fetch_file(OLD)
    rows = report(project, "2.6", "1.13", f"--source=local:{tarball}")
    assert list(rows) == names(project)
    listed = subprocess.run(["tar", "-tf", str(tarball)], capture_output=True, text=True, check=True).stdout
    present = {line.split("/", 1)[1] for line in listed.splitlines() if "/" in line}
    for row in rows.values():
        gone = [note["path"] for note in row["notes"] if note["text"].endswith("is not in the tree")]
        upstreams = [path for path in gone if not path.startswith("third_device/")]
        assert not present & set(upstreams), f"{row['patch']}: said to be gone, but it is there"
        if row["verdict"] == "target gone":
            assert gone
        if row["verdict"] == "conflict":
            assert row["notes"], f"{row['patch']}: a conflict without a word why"
    # torch/_dynamo came after 1.13
    assert rows["2.6/0003-device-interface-cudac.patch"]["verdict"] == "target gone"


def test_it_never_takes_what_git_am_puts_in_the_wrong_place(project: Path, tmp_path: Path) -> None:
    """Each verdict that keeps a patch against ``git am -3``, which may succeed where we stop, but not the other way."""
    rows = report(project, "2.6", "2.6", "--debian-patches")
    kept = [name for name, row in rows.items() if row["verdict"] in ("unmodified", "offset", "merged")]
    assert kept
    tree = tmp_path / "tree"
    manifest = load_release(project, "2.6")
    baseline = ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=True).repo
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    subprocess.run([*git, "clone", "-q", "--shared", "--no-checkout", str(baseline), str(tree)], check=True)
    subprocess.run([*git, "checkout", "-q", "origin/debian"], cwd=tree, check=True)
    for name in kept:
        patch = project / "patches" / name
        done = subprocess.run(
            [*git, "am", "-q", "-3", "--keep-cr", str(patch)], cwd=tree, capture_output=True, check=False
        )
        assert done.returncode == 0, f"we keep {name}, git am -3 does not: {done.stderr.decode()}"
