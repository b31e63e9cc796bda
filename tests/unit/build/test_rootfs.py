"""A real small root by mmdebstrap: made once, completed, reused, deleted, and no mount left whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.mounts import list_mounts, remove_tree
from decouple.build import pypi_files, root_description, root_layers, root_record, rootfs
from decouple.build.root_layers import LayerInstaller
from decouple.build.sandbox import BindMount, Sandbox
from tests.support.tools import find_missing

LINK_COMPILERS = Path(root_layers.__file__).parent / "inside/link_compilers.sh"
TOOLS = ("mmdebstrap", "mount", *(["newuidmap"] if os.geteuid() else []))
TRIED = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--mount", "true"]
reason = find_missing(*TOOLS) or ("no namespaces here" if subprocess.run(TRIED, capture_output=True).returncode else "")
needs_root = pytest.mark.skipif(bool(reason), reason=reason)


def tiny(folder: Path) -> root_description.Description:
    """The shipped description with a bootstrap of essential packages and one empty layer (such a root has no apt)."""
    shipped = root_description.load_description()
    layer = replace(
        shipped.find_layer("core"), name="tiny", packages=(), pypi=(), beside=(), seen={"dash": "0"}, disk_mib=20
    )
    bootstrap = replace(shipped.bootstrap, variant="essential", include=("libc-bin",), components=("main",))
    return replace(shipped, name="tiny", bootstrap=bootstrap, layers=(layer,), path=folder / "tiny.toml")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In folders of mode 700, as a home is."""
    made = tmp_path_factory.mktemp("cache")
    yield made
    for folder in rootfs.list_roots(made):
        rootfs.remove_root(folder)  # pytest cannot: a user's root has files of other ids


@pytest.fixture(scope="module")
def root(cache: Path) -> rootfs.Root:
    # What an interrupted bootstrap leaves: a folder that is not empty, which mmdebstrap alone would refuse.
    (rootfs.choose_folder(cache, tiny(cache)) / "root" / "etc").mkdir(parents=True)
    try:
        return rootfs.ensure_root(cache, tiny(cache), ["tiny"], log=cache / "log")
    except DecoupleError as error:
        if "mmdebstrap" in error.what and "Temporary failure" in (cache / "log").read_text():
            pytest.skip("Debian's archive cannot be reached")
        raise


def test_a_disk_that_cannot_hold_it_is_named_before_anything_is_fetched(tmp_path: Path) -> None:
    small = tiny(tmp_path)
    large = replace(small, layers=(replace(small.layers[0], disk_mib=1 << 30),))
    with pytest.raises(DecoupleError, match=r"1048\d+\.\d GiB") as raised:
        rootfs.ensure_root(tmp_path, large, ["tiny"], log=tmp_path / "log")
    assert raised.value.code == CANNOT_HERE
    assert not (tmp_path / "log").exists()


def test_what_a_killed_run_started_keeps_the_next_one_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mmdebstrap and apt go on when this process is killed: the next run would delete the root under their hands."""
    program, seen = tmp_path / "bin/mmdebstrap", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nreadlink /proc/$$/fd/* >{seen}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(DecoupleError, match="mmdebstrap"):
        rootfs.ensure_root(tmp_path, tiny(tmp_path), ["tiny"], log=tmp_path / "log")
    lock = rootfs.choose_folder(tmp_path, tiny(tmp_path)).with_suffix(".lock")
    assert str(lock) in seen.read_text().splitlines()


@needs_root
@pytest.mark.slow
def test_made_once_and_verified(cache: Path, root: rootfs.Root) -> None:
    made = root.tree.stat().st_ctime_ns
    again = rootfs.ensure_root(cache, tiny(cache), ["tiny"], log=cache / "log")
    assert again.tree.stat().st_ctime_ns == made
    assert "dash" in root.read_versions()
    assert rootfs.verify_root(root) == []
    assert rootfs.find_changed_versions(root) == [f"dash: seen 0, now {root.read_versions()['dash']}"]


@needs_root
@pytest.mark.slow
def test_a_layer_is_not_there_because_another_made_its_folder(root: rootfs.Root) -> None:
    piece = root_description.PypiPiece("numpy", "2.2.2", "numpy-2.2.2-py3-none-any.whl", "0" * 64, prefix="/usr/share")
    other = replace(root.description.layers[0], name="other", pypi=(piece,))
    both = replace(root.description, layers=(*root.description.layers, other))
    assert rootfs.verify_root(rootfs.Root(both, root.folder, ("tiny", "other"))) == ["layer other was not installed"]


@needs_root
@pytest.mark.slow
def test_commands_run_inside_and_their_mounts_end_with_them(root: rootfs.Root, tmp_path: Path) -> None:
    (tmp_path / "shown").write_text("from outside")
    before = Path("/proc/self/mountinfo").read_text()
    sandbox = root.make_sandbox([BindMount(tmp_path, "/decouple/2.6/src")])
    code = "cat shown; echo; head -n1 /proc/self/comm; ls -d /dev/null; echo made > new; cat /proc/self/mounts | wc -l"
    done = subprocess.run(
        sandbox.make_command(["/bin/sh", "-c", code], start="/decouple/2.6/src"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[:3] == ["from outside", "head", "/dev/null"]
    assert (tmp_path / "new").read_text() == "made\n"
    assert Path("/proc/self/mountinfo").read_text() == before
    assert list_mounts(root.folder) == []


@needs_root
@pytest.mark.slow
def test_a_killed_command_leaves_no_mount_and_no_process(root: rootfs.Root) -> None:
    argv = root.make_sandbox().make_command(["/bin/sh", "-c", "echo there; sleep 987654"])
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "there\n"
    child.kill()
    child.wait()
    child.stdout.read()  # ends only when the last process inside has ended
    assert list_mounts(root.folder) == []


def test_a_root_with_more_than_the_description_stays_for_the_checkout_that_made_it(tmp_path: Path) -> None:
    described = tiny(tmp_path)
    first = rootfs.choose_folder(tmp_path, described)

    def made_with(*packages: str) -> None:
        layers = {"tiny": {"digest": "other", "packages": list(packages), "pypi": [], "beside": []}}
        first.mkdir(parents=True, exist_ok=True)
        (first / "done.json").write_text(json.dumps({"bootstrap": True, "layers": layers}))

    layer = replace(described.find_layer("tiny"), packages=("a", "b"))
    made_with("a")  # b is put on top
    assert rootfs.choose_folder(tmp_path, described, [layer]) == first
    made_with("a", "b", "of another checkout")
    assert rootfs.choose_folder(tmp_path, described, [layer]) == first.with_name(f"{first.name}-2")
    first.with_name(f"{first.name}-2").mkdir()
    for folder in rootfs.list_roots(tmp_path, described):
        rootfs.remove_root(folder)
    assert list(first.parent.iterdir()) == []


def test_what_is_advised_for_a_broken_root_makes_that_one_anew(tmp_path: Path) -> None:
    """`clean --rootfs` deletes another one: the root of portable wheels, and a bare system, stayed as they were."""
    described = replace(tiny(tmp_path), name="portable")
    layer = replace(described.layers[0], packages=("gone",))
    described, folder = replace(described, layers=(layer,)), rootfs.choose_folder(tmp_path, described)
    (folder / "root").mkdir(parents=True)
    content = {"digest": root_description.compute_layer_digest(layer), **layer.describe_content()}
    (folder / "done.json").write_text(json.dumps({"bootstrap": True, "layers": {"tiny": content}}))
    with pytest.raises(DecoupleError, match="package gone is not installed") as raised:
        rootfs.ensure_root(tmp_path, described, ["tiny"], log=tmp_path / "log")
    command, _, promise = str(raised.value.next_step).partition(", ")
    assert promise == "and run again: the root is made anew"
    subprocess.run(command.split(), check=True)
    assert not rootfs.is_made(folder)


@pytest.mark.tools("mount")
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_nothing_is_deleted_through_a_mount(tmp_path: Path) -> None:
    """In a mount namespace of the test's own, with a bind mount inside the folder to delete."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (tmp_path / "root" / "home").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from decouple.base.mounts import remove_tree\n"
        "try: remove_tree(Path(sys.argv[1]))\nexcept Exception as error: print(error)\n"
    )
    script = 'mount --bind "$1/precious" "$1/root/home" && exec "$2" -c "$3" "$1/root"'
    import sys

    argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, code]
    done = subprocess.run(argv, capture_output=True, text=True)
    if "Operation not permitted" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert f"{tmp_path}/root/home is mounted there; not deleted" in done.stdout
    assert (precious / "file").read_text() == "kept"
    remove_tree(tmp_path / "root")  # outside that namespace nothing is mounted
    assert not (tmp_path / "root").exists()
    assert (precious / "file").read_text() == "kept"


@pytest.mark.parametrize(("written", "name"), [("a\\040b", "a b"), ("größe\\134", "größe\\")])
def test_a_mount_point_with_an_odd_name_is_seen(tmp_path: Path, written: str, name: str) -> None:
    info = tmp_path / "mountinfo"
    info.write_text(
        f"36 35 98:0 / {tmp_path}/{written} rw - ext4 /dev/x rw\n37 35 98:0 / {tmp_path}x rw - ext4 /dev/x rw\n"
    )
    assert list_mounts(tmp_path, info) == [tmp_path / name]


def test_a_mount_point_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/etc").write_text("a file")
    place = Sandbox(tmp_path / "root", (), (BindMount(tmp_path, "/etc/place"),))
    with pytest.raises(DecoupleError, match="root/etc/place"):
        place.make_command(["true"])


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(DecoupleError, match="symbolic link"):
        remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "not-there")


def test_dpkgs_status_is_read(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: one\nStatus: install ok installed\nVersion: 1:2.3-4\nDescription: x\n Status: fake\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
    )
    assert root_record.read_installed_packages(tmp_path) == {("one", ""): "1:2.3-4"}


def test_commands_without_a_user_namespace_as_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root")
    argv = Sandbox(tmp_path, root_description.load_description().mounts).make_command(["true"])
    assert "--user" not in argv
    assert "--kill-child" in argv


def test_a_container_that_allows_no_mounts_is_named() -> None:
    """Root in a container without rights: a user namespace of its own, whose limit on mount namespaces is 0."""
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
        pytest.skip("user namespaces do not work here")
    code = "from decouple.build import sandbox; sandbox.check_sandbox()"
    inside = 'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$0" -c "$1"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", inside, sys.executable, code]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert "mount namespaces do not work here: unshare" in done.stderr
    assert "(start the container with" in done.stderr


def test_files_of_pypi_come_while_the_root_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = tiny(tmp_path)
    tool = root_description.PipTool("x", "1", "x-1-py3-none-any.whl", "0" * 64)
    described = replace(described, layers=(replace(described.layers[0], pip=(tool,)),))
    begun, installed = threading.Event(), list[Path]()

    def fetch(pieces: list[object], *_: object) -> dict[str, Path]:
        assert pieces == [tool]
        begun.set()
        return {tool.file: tmp_path / tool.file}

    def bootstrap(*_: object) -> None:
        assert begun.wait(20), "nothing is fetched before the root is made"

    def run_logged(argv: list[str], **_: object) -> None:
        installed.extend(Path(word) for word in argv if word.endswith(tool.file))

    monkeypatch.setattr(pypi_files, "fetch_pypi_files", fetch)
    monkeypatch.setattr(rootfs, "_bootstrap_root", bootstrap)
    monkeypatch.setattr(root_layers, "run_logged", run_logged)
    monkeypatch.setattr(rootfs, "verify_root", lambda root: [])
    monkeypatch.setattr(root_record, "update_record", lambda *_: None)
    monkeypatch.setattr("decouple.build.sandbox.check_sandbox", lambda: None)
    rootfs.ensure_root(tmp_path, described, ["tiny"], log=tmp_path / "log")
    assert tmp_path / tool.file in installed


def record_layers(folder: Path, *names: str) -> root_description.Description:
    """The portable root as it is recorded when these layers are in it."""
    described = root_description.load_description(root_description.PORTABLE)
    layers = [described.find_layer(name) for name in names]
    recorded = {
        layer.name: {"digest": root_description.compute_layer_digest(layer), **layer.describe_content()}
        for layer in layers
    }
    made = rootfs.choose_folder(folder, described)
    made.mkdir(parents=True)
    (made / "done.json").write_text(json.dumps({"bootstrap": True, "layers": recorded}))
    return described


def test_a_layer_that_others_have_whole_is_there(tmp_path: Path) -> None:
    """Who built a core for Python 3.13 fetches nothing for the bindings over the official kernels."""
    described = record_layers(tmp_path, "core", "python3.13")
    assert rootfs.estimate_root(tmp_path, described, ["bindings"]) is None
    missing = rootfs.estimate_root(tmp_path, described, ["bindings", "tomli"])
    assert missing is not None and missing.disk_mib == described.find_layer("tomli").disk_mib


def test_what_another_layer_brought_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that runs in the root may have that ccache open."""
    described, installed = record_layers(tmp_path, "bindings"), list[root_description.Layer]()
    missing = rootfs.estimate_root(tmp_path, described, ["core"])
    assert missing is not None and missing.disk_mib == described.find_layer("core").disk_mib
    monkeypatch.setattr(pypi_files, "fetch_pypi_files", lambda *_: {})
    monkeypatch.setattr(LayerInstaller, "install_layer", lambda self, layer, *_: installed.append(layer))
    monkeypatch.setattr(rootfs, "verify_root", lambda root: [])
    monkeypatch.setattr(root_record, "update_record", lambda *_: None)
    rootfs.ensure_root(tmp_path, described, ["core"], log=tmp_path / "log")
    [layer] = installed
    assert not layer.foreign
    assert [tool.project for tool in layer.pip] == ["numpy", "pyyaml", "typing-extensions", "setuptools", "wheel"]
    assert rootfs.estimate_root(tmp_path, described, ["core"]) is None, "recorded whole"


def test_files_that_another_layer_unpacked_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bindings' setuptools lies where the layer of Python 3.13 puts NumPy."""
    described, scripts = record_layers(tmp_path, "bindings"), list[list[str]]()
    layer = described.find_layer("python3.13")
    monkeypatch.setattr(pypi_files, "fetch_pypi_files", lambda pieces, *_: {piece.file: tmp_path for piece in pieces})
    monkeypatch.setattr(root_layers, "run_logged", lambda argv, **_: scripts.append(argv))
    monkeypatch.setattr(rootfs, "verify_root", lambda root: [])
    monkeypatch.setattr(root_record, "update_record", lambda *_: None)
    monkeypatch.setattr("decouple.build.sandbox.check_sandbox", lambda: None)
    rootfs.ensure_root(tmp_path, described, ["python3.13"], log=tmp_path / "log")
    unpacked = [argv[argv.index("unpack_piece.sh") + 1 :] for argv in scripts if "unpack_piece.sh" in argv]
    assert len(unpacked) == len(layer.pypi) - 1 and not any("setuptools" in words[1] for words in unpacked)
    assert {words[2] for words in unpacked} == {"keep"}


def test_an_older_compiler_is_called_with_the_headers_of_its_own_suite(tmp_path: Path) -> None:
    """By a script in bin/. The loader of that suite, in lib64, is a link whose target is the root's own before."""
    prefix, compiler = tmp_path / "gcc", tmp_path / "gcc/usr/bin/g++-11"
    compiler.parent.mkdir(parents=True)
    compiler.write_text('#!/bin/sh\necho "$@"\n')
    compiler.chmod(0o755)
    (prefix / "lib64").mkdir()
    (prefix / "lib64/ld.so").symlink_to("/lib/ld.so")
    for _ in range(2):  # an interrupted run goes on
        subprocess.run([LINK_COMPILERS, prefix, "/usr/bin/g++-11"], check=True)
    called = subprocess.run([prefix / "bin/g++-11", "-c", "a b.cpp"], check=True, capture_output=True, text=True)
    assert called.stdout == f"--sysroot={prefix} -c a b.cpp\n"
    assert (prefix / "lib64/ld.so").readlink() == prefix / "lib/ld.so"


def test_a_suite_without_compilers_gets_no_scripts(tmp_path: Path) -> None:
    subprocess.run([LINK_COMPILERS, tmp_path], check=True)
    assert not list(tmp_path.iterdir())
