"""A patch of somebody else's, given to the product and to ``git am``: what each made of it."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.cli import main
from tests.support.series import ENVIRONMENT, RELEASE, World, git

FORMAT = "%T%x00%an%x00%ae%x00%ad%x00%B"


@dataclass(frozen=True)
class Commit:
    """A commit as far as a patch says it."""

    tree: str
    name: str
    address: str
    date: str
    message: str

    def as_mail(self) -> dict[str, str]:
        """Author and title by the words that ``git mailinfo`` has for them."""
        return {"Author": self.name, "Email": self.address, "Subject": self.message.split("\n", 1)[0]}

    @classmethod
    def at(cls, repository: Path, revision: str = "HEAD") -> Commit:
        """The commit that ``revision`` names; the message without what the stack adds."""
        out = git(repository, "log", "-1", "--date=raw", f"--format={FORMAT}", revision)
        tree, name, address, date, message = out.split("\0")
        lines = [line for line in message.split("\n") if not line.startswith("Decouple-Patch: ")]
        return cls(tree, name, address, date, "\n".join(lines).strip("\n"))


@dataclass(frozen=True)
class Outcome:
    """What became of a patch: the commit, or one line that says why there is none."""

    commit: Commit | None
    words: str = ""
    code: int = 0


def mailinfo(data: bytes, folder: Path) -> dict[str, str]:
    """What ``git mailinfo`` says of a patch: Author, Email, Subject, Date; without Author it is no mail to git."""
    done = subprocess.run(
        ["git", "mailinfo", "-b", "-u", str(folder / "message"), str(folder / "patch")],
        input=data.replace(b"\r\n", b"\n"),
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def by_git_am(world: World, folder: Path, *patches: Path, options: tuple[str, ...] = ()) -> Outcome:
    """What ``git am`` makes of the patches, one after the other, on upstream's tree."""
    shutil.rmtree(folder, ignore_errors=True)
    git(folder.parent, "clone", "-q", "--shared", str(world.upstream), str(folder))
    for patch in patches:
        command = ["git", "am", "-q", "--keep-non-patch", *options, str(patch)]
        env = {**ENVIRONMENT, "TZ": "UTC"}
        for key in [key for key in env if key.startswith("GIT_AUTHOR")]:
            del env[key]
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            return Outcome(None, done.stderr.strip().replace("\n", "; "), done.returncode)
    return Outcome(Commit.at(folder))


def run(world: World, *arguments: str) -> Outcome:
    """A command of the product on the world's project; the commit of its tree is not looked at."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stderr(said):
        patched.setenv("DECOUPLE_PROJECT", str(world.project))
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(arguments)
    return Outcome(None, said.getvalue().strip(), code)


def by_us(world: World, *patches: Path, strip: int = 1) -> Outcome:
    """What import and push make of the patches, one after the other, on the tree of ``world``."""
    for number, patch in enumerate(patches, start=1):
        name = f"{number:04}-{patch.name}"
        for command in (["import", RELEASE, str(patch), "-P", name, "-s", str(strip)], ["push", RELEASE]):
            done = run(world, *command)
            if done.code:
                return done
    return Outcome(Commit.at(world.source, "HEAD^"))  # HEAD is the overlay


def fresh(template: World, folder: Path) -> World:
    """A copy of a world, in which nothing is applied."""
    shutil.rmtree(folder, ignore_errors=True)
    root = template.project.parent
    shutil.copytree(root, folder, symlinks=True)
    return World(folder, None)
