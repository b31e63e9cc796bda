"""Nothing that a person or a calling git set changes what a baseline, a tree or a patch is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from decouple.base.git import make_fetch_environment, try_git
from decouple.stack import edits
from decouple.stack.engine import Stack
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support.releases import DEBIAN_PATCH, manifest, sample_tree
from tests.support.series import edited_patch, usual_world
from tests.unit.upstream.test_baseline import debian_folder

CONFIG = (
    "[i18n]\n commitEncoding = latin1\n",
    "[safe]\n bareRepository = explicit\n",
    "[core]\n attributesFile = {attributes}\n",
    "[core]\n excludesFile = {excludes}\n",
    "[apply]\n ignoreWhitespace = change\n[diff]\n context = 1\n algorithm = patience\n",
)
VARIABLES = {
    "GIT_ATTR_SOURCE": "HEAD",
    "GIT_COMMITTER_DATE": "2001-02-03T04:05:06Z",
    "GIT_DEFAULT_HASH": "sha256",
    "GIT_DIFF_OPTS": "--unified=1",
    "GIT_EXTERNAL_DIFF": "false",
    "GIT_GLOB_PATHSPECS": "1",
    "GIT_ICASE_PATHSPECS": "1",
    "GIT_NAMESPACE": "elsewhere",
    "GIT_QUARANTINE_PATH": "/nonexistent",
    "GIT_SHALLOW_FILE": "/nonexistent/shallow",
    "GIT_TRACE": "/dev/full",
    "XDG_CONFIG_HOME": "{xdg}",
}


def all_of_it(root: Path) -> dict[str, str]:
    """What a baseline with Debian's patches, a push, an edit and a refresh make, as ids and digests."""
    tree = sample_tree(root / "release")
    source = UnpackedRelease("local", "source", tree, "one", debian=debian_folder(root / "debian", DEBIAN_PATCH))
    base = ensure_baseline(root / "cache", manifest(), source, debian_patches=True)
    world = usual_world(root / "world")
    with Stack.open(world.places) as stack:
        patch = edited_patch(world, stack)
        return {
            "pristine": base.upstream,
            "with Debian's patches": base.commit,
            "head": stack.state.head,
            "patch": hashlib.sha256(patch).hexdigest(),
        }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return all_of_it(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("setting", [*CONFIG, *VARIABLES])
def test_a_foreign_setting_changes_nothing(
    setting: str, plain: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_world(tmp_path / "made before the setting")
    folder = tmp_path / "git"
    folder.mkdir()
    for name in ("attributes", "ignore"):
        (folder / name).write_text("* -diff\n" if name == "attributes" else "*\n")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT"):  # set by tests/conftest.py
        monkeypatch.delenv(name)
    if setting in VARIABLES:
        monkeypatch.setenv(setting, VARIABLES[setting].format(xdg=tmp_path))
    else:
        config = setting.format(attributes=folder / "attributes", excludes=folder / "ignore")
        (tmp_path / ".gitconfig").write_text(config)
        monkeypatch.setenv("HOME", str(tmp_path))
    assert all_of_it(tmp_path) == plain


def test_what_the_tree_itself_says_of_diffs_is_in_no_patch(tmp_path: Path) -> None:
    """Nothing on the command line overrides these two; that of before was refused as a binary file."""
    made = []
    for attributes, config in (("", ""), ("* -diff\n", ""), ("*.py diff=odd\n", '[diff "odd"]\n xfuncname = "^(.)"\n')):
        world = usual_world(tmp_path / str(len(made)))
        with (world.source / ".git/info/attributes").open("a") as file:
            file.write(attributes)
        with (world.source / ".git/config").open("a") as file:
            file.write(config)
        with Stack.open(world.places) as stack:
            stack.push(None)
            streams = world.source / "third_device/torch_cuda/core/streams.py"
            streams.write_text(streams.read_text().replace("line 30\n", "line thirty\n"))
            edits.refresh_patches(stack)
        made.append((world.project / "patches/2.6/0003-split.patch").read_bytes())
    assert b"line thirty" in made[0]
    assert made[1] == made[0] == made[2]


def test_what_fetches_knows_the_persons_proxy_and_nothing_else_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("[http]\n proxy = http://proxy:3128\n[user]\n name = Ada\n[core]\n sshCommand = ssh -4\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_SSL_CAINFO", "/etc/ours.pem")
    monkeypatch.setenv("GIT_SHALLOW_FILE", "/nonexistent")

    def asked(key: str) -> str:
        return try_git("config", "--get", key, cwd=tmp_path, env=make_fetch_environment()).out.decode().strip()

    assert (asked("http.proxy"), asked("core.sshCommand"), asked("user.name")) == ("http://proxy:3128", "ssh -4", "")
    reaching = {key for key, value in make_fetch_environment().items() if value and not key.startswith("GIT_CONFIG_")}
    assert reaching == {"GIT_SSL_CAINFO"}
