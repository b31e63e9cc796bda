"""A user who is not root: what keeps namespaces from working is named with its remedy, and what a prefix gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.build import preflight, sandbox
from decouple.cli import build_parser
from decouple.cli.advice import select_fitting
from tests.support.files import write_files

USER_NAMESPACE = ("unshare", "--user", "--map-root-user")
works = not subprocess.run([*USER_NAMESPACE, "true"], capture_output=True).returncode
needs_user_namespaces = pytest.mark.skipif(not works, reason="user namespaces do not work here")


def run_in_user_namespace(code: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` where a user who is not root would, below mounts that belong to another namespace."""
    return subprocess.run([*USER_NAMESPACE, sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.tools("mount")
@needs_user_namespaces
def test_a_user_who_may_mount_in_a_namespace_is_not_refused() -> None:
    """The kernel gives such a user what is mounted outside only as a whole."""
    done = run_in_user_namespace("from decouple.build import preflight; preflight.check_namespaces()")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.tools("mount")
@needs_user_namespaces
def test_the_path_of_a_user_has_no_folder_of_roots_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has chroot in /usr/sbin."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    try:
        preflight.check_namespaces()
    except DecoupleError as error:
        if "chroot" not in error.what:
            pytest.skip(str(error))
        raise


@needs_user_namespaces
def test_what_mount_says_of_a_refusal_is_told() -> None:
    """Its second line only names dmesg."""
    inside = "mount --bind /proc/self/nothing / 2>&1 | sed '2a dmesg(1) may have more' >&2; exit 32"
    code = f"from decouple.build import preflight as p; p._INSIDE = {inside!r}; p.check_namespaces()"
    assert "mount: /: special device /proc/self/nothing does not exist" in run_in_user_namespace(code).stderr


def make_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    """A machine that refuses user namespaces, with these settings and no others."""
    write_files(tmp_path, {name.replace("__", "/"): f"{value}\n" for name, value in settings.items()})
    monkeypatch.setattr(sandbox, "_SYSCTL", tmp_path)
    monkeypatch.setattr(sandbox, "is_root", lambda: False)
    monkeypatch.setattr(sandbox, "_make_unshare_words", lambda network: ["sh", "-c", "echo refused >&2; exit 1", "sh"])


@pytest.mark.tools("newuidmap")
@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"user__max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces=15000"),
        (
            {"user__max_user_namespaces": "1000", "kernel__unprivileged_userns_clone": "0"},
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel__apparmor_restrict_unprivileged_userns": "1"},
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], remedy: str
) -> None:
    make_machine(tmp_path, monkeypatch, **settings)
    with pytest.raises(DecoupleError, match="user namespaces do not work here: refused") as caught:
        sandbox.check_sandbox()
    assert remedy in str(caught.value.next_step)
    assert "subuid" not in str(caught.value.next_step)
    assert caught.value.code == CANNOT_HERE


@pytest.mark.tools("newuidmap")
def test_a_user_who_gets_a_namespace_but_may_not_mount_is_told_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Ubuntu 24.04."""
    make_machine(tmp_path, monkeypatch, kernel__apparmor_restrict_unprivileged_userns="1")
    script = 'case "$*" in *mount*) echo "mount: /proc: permission denied." >&2; exit 32 ;; esac'
    monkeypatch.setattr(sandbox, "_make_unshare_words", lambda network: ["sh", "-c", script, "sh"])
    with pytest.raises(DecoupleError, match="does not work here: mount: /proc: permission denied") as caught:
        preflight.check_namespaces()
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in str(caught.value.next_step)


@pytest.mark.tools("newuidmap")
@pytest.mark.parametrize("given", [(), ("subuid",), ("subuid", "subgid")])
def test_a_user_without_a_range_is_told_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    make_machine(tmp_path, monkeypatch)
    monkeypatch.setattr(sandbox, "_has_range", lambda file, user: file.name in given)
    with pytest.raises(DecoupleError) as caught:
        sandbox.check_sandbox()
    asked = "usermod --add-subuids" in select_fitting(str(caught.value.next_step), ["build"], build_parser)
    assert asked == (len(given) < 2)  # who has both is in a container that refuses


@pytest.mark.tools("mount", "newuidmap")
@needs_user_namespaces
@pytest.mark.skipif(not Path("/etc/subuid").exists(), reason="no file to put another in the place of")
def test_a_kernel_that_makes_no_user_namespace_is_not_waited_for(tmp_path: Path) -> None:
    """With a range, unshare's helper waits for a namespace that never comes."""
    (tmp_path / "ranges").write_text("root:100000:65536\n")
    code = "from decouple.build import sandbox; sandbox.is_root = lambda: False; sandbox.check_sandbox()"
    inside = (
        'mount --bind "$2" /etc/subuid && mount --bind "$2" /etc/subgid &&'
        ' echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" -c "$1"'
    )
    argv = [*USER_NAMESPACE, "--mount", "sh", "-c", inside, sys.executable, code, str(tmp_path / "ranges")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert "user namespaces do not work here: unshare: " in done.stderr
    assert "sysctl -w user.max_user_namespaces=15000" in done.stderr


def test_a_range_is_found_by_name_and_by_number(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    assert not sandbox._has_range(file, "alice")
    file.write_text("bob:100000:65536\nalice2:165536:65536\n")
    assert not sandbox._has_range(file, "alice")
    assert sandbox._has_range(file, "bob")
    file.write_text(f"{os.geteuid()}:100000:65536\n")
    assert sandbox._has_range(file, "alice")


@pytest.mark.tools("ip")
def test_a_user_without_network_has_loopback_and_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "is_root", lambda: False)
    user = () if os.geteuid() else ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    prefix = sandbox.make_offline_prefix.__wrapped__()
    if not prefix:
        pytest.skip("this machine does not allow it")
    shown = "PATH=$PATH:/sbin ip -brief address show lo; grep CapEff /proc/self/status"
    done = subprocess.run([*user, *prefix, "sh", "-c", shown], capture_output=True, text=True)
    assert "127.0.0.1/8" in done.stdout and "DOWN" not in done.stdout, done
    assert done.stdout.split()[-1] == "0" * 16
