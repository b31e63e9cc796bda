"""Which roots `clean` deletes from the cache, and under what it deletes none."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.build import bare_systems, root_description, rootfs
from decouple.cli import main
from tests.support.waiting import hold_and_see

DEBIAN, PORTABLE = root_description.load_description(), root_description.load_description(root_description.PORTABLE)
BARE = [system.make_description("a keyring") for system in bare_systems.read_systems()]
IN_A_NAMESPACE = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--mount"]


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a root of every kind, in the cache of a checkout in which nothing was built."""
    for name in ("series", "patches"):
        (tmp_path / "checkout" / name).mkdir(parents=True)
    (tmp_path / "checkout/series/2.6.toml").touch()
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "checkout"))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    for description in (DEBIAN, PORTABLE, *BARE):
        folder = rootfs.choose_folder(tmp_path / "cache", description)
        (folder / "root/usr").mkdir(parents=True)
        (folder / "root/usr/file").touch()
        folder.with_name(f"{folder.name}.lock").touch()
    return tmp_path / "cache/rootfs"


def list_names(roots: Path) -> set[str]:
    return {path.name for path in roots.iterdir()}


def test_each_root_can_be_deleted(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    debian = rootfs.choose_folder(roots.parent, DEBIAN)
    before = list_names(roots)
    assert main(["clean", "2.6"]) == 0 and list_names(roots) == before
    assert main(["clean", "2.6", "--rootfs"]) == 0
    assert before - list_names(roots) == {debian.name, f"{debian.name}.lock"}
    (roots / "trixie-0123456789abcdef").mkdir()  # of a checkout with another description
    (roots / "trixie-0123456789abcdef-2").mkdir()
    (roots / "mine").mkdir()  # not made by decouple
    (roots / "link-0123456789abcdef").symlink_to(roots / "mine")
    capsys.readouterr()
    assert main(["clean", "2.6", "--all-roots"]) == 0
    assert list_names(roots) == {"mine", "link-0123456789abcdef"}
    said = capsys.readouterr().out
    assert said.count("deleted ") == 1 + len(BARE) + 2
    assert f"deleted {rootfs.choose_folder(roots.parent, PORTABLE)}\n" in said


def test_a_root_that_is_being_made_is_waited_for(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    focal = rootfs.choose_folder(roots.parent, next(one for one in BARE if one.name == "ubuntu-20.04"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with hold_and_see(focal.with_name(f"{focal.name}.lock")) as awaited:  # the name has a dot
            done = pool.submit(main, ["clean", "2.6", "--all-roots"])
            assert awaited.wait(60) and focal.is_dir()
        assert done.result() == 0
    assert list_names(roots) == set()
    assert f"waits for the run that makes {focal.name}\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [PORTABLE, BARE[0]])
def test_no_root_is_deleted_through_a_mount(roots: Path, tmp_path: Path, kind: root_description.Description) -> None:
    """In a mount namespace of the test's own, with a user's folder mounted in the root."""
    precious, mounted = tmp_path / "precious", rootfs.choose_folder(roots.parent, kind) / "root" / "usr"
    precious.mkdir()
    (precious / "file").write_text("kept")
    script = 'mount --bind "$1" "$2" && exec "$3" -m decouple clean 2.6 --all-roots'
    argv = [*IN_A_NAMESPACE, "sh", "-c", script, "sh", str(precious), str(mounted), sys.executable]
    done = subprocess.run(argv, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount: " in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 1
    assert f"{mounted} is mounted there; not deleted\n" in done.stderr
    assert (precious / "file").read_text() == "kept"
    assert (mounted / "file").exists()


def test_a_root_in_which_a_command_runs_stays(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A build of another release, or a tryout: neither holds the lock of the root."""
    folder = rootfs.choose_folder(roots.parent, PORTABLE)
    code = "import os, sys; os.chroot(sys.argv[1]); print('there', flush=True); sys.stdin.read()"
    argv = [*IN_A_NAMESPACE, sys.executable, "-c", code, str(folder / "root")]
    inside = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert inside.stdin and inside.stdout
    if inside.stdout.readline() != "there\n":
        pytest.skip("no namespaces here")
    assert main(["clean", "2.6", "--all-roots"]) == 1
    assert f"{folder}: process {inside.pid} runs in it; not deleted\n" in capsys.readouterr().err
    assert (folder / "root/usr/file").exists()
    inside.stdin.close()
    inside.wait()
    assert main(["clean", "2.6", "--all-roots"]) == 0
    assert list_names(roots) == set()
