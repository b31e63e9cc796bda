"""Any command, killed at a random moment: what a person then finds is what was there before or what should be.

A scene is one command on one small world. `run` takes it apart again and again: the world anew, the command in a
process group of its own, a signal at some moment, the next command, and a look from outside.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from decouple.cli import main
from decouple.cli.last_resort import run_to_end
from tests.support.files import write_files
from tests.support.series import LINES, RELEASE, World, contents, git, usual_world
from tests.support.variables import set_variables

ROOT = Path(__file__).parents[2]
Look = Mapping[str, Any]
"""What is seen from outside: names and contents of files, ids of git."""
MINE = "mine, not committed\n"
"""An edit of a person's in a file that no patch touches."""


def _nothing_wrong() -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class Scene:
    """A command (`action` runs it in a process of its own, its exit code is returned) and how its traces are seen.

    ``after`` is the next command of a person's, which settles what was cut off; ``between`` is True where a command
    writes many files that are each whole, one by one: then each file is the old or the new one. ``holds`` says what is
    wrong with what is there after any kill, "" when nothing is.
    """

    action: Callable[[], int]
    look: Callable[[], Look]
    after: Callable[[], int] = lambda: 0
    between: bool = False
    holds: Callable[[], str] = _nothing_wrong
    repeats: bool = True
    """Whether the command may be given again when it is done; a `delete` may not."""
    code: int = 0
    """What it ends with; `bisect` ends with 1 when it found the patch."""


@dataclasses.dataclass
class Tally:
    """What a run saw: of ``rounds`` kills how many came in time, and which state was found after them."""

    rounds: int = 0
    killed: int = 0
    old: int = 0
    new: int = 0
    between: int = 0


class Between(AssertionError):
    """A state that is neither the old nor the new one, or a command that failed after a kill."""


# ---- processes


@dataclasses.dataclass(frozen=True)
class Started:
    """A running command: its process, which leads a group, and the file with what it says."""

    pid: int
    said: Path

    def wait(self) -> int:
        """Its exit code, negative for the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start(action: Callable[[], int], said: Path, learn: bool = False) -> Started:
    """Fork, so that no moment is lost on Python's start, and run ``action``; its words go to ``said``.

    ``learn``: which modules it loaded goes to a file beside that.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(PermissionError):  # the child does the same; whoever is first
            os.setpgid(pid, pid)
        return Started(pid, said)
    code = 99
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "rw"[n > 0], closefd=False) for n in range(3))
        code = action()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        if learn:
            Path(f"{said}.modules").write_text("\n".join(sys.modules))
        os._exit(code)


def command(*arguments: str, stdin: bytes = b"", **variables: str) -> Callable[[], int]:
    """``decouple ARGUMENTS`` with these variables, for `Scene.action`."""

    def run() -> int:
        os.environ.update(variables)
        if stdin:
            read, write = os.pipe()
            os.write(write, stdin)
            os.close(write)
            os.dup2(read, 0)
            sys.stdin = os.fdopen(0, closefd=False)
        return main(list(arguments))

    return run


def decouple(folder: Path, *words: object, stdin: bytes = b"", **variables: str) -> Callable[[], int]:
    """``decouple WORDS`` on the project and the cache of a scene in ``folder``."""
    variables |= {"DECOUPLE_PROJECT": str(folder / "project"), "DECOUPLE_CACHE": str(folder / "cache")}
    return command(*map(str, words), stdin=stdin, **variables)


def finished(action: Callable[[], int], said: Path, expected: int = 0, learn: bool = False) -> None:
    """Run ``action`` to its end. Raises Between unless that is as expected.

    ``learn``: what it loaded is loaded here too, so that later ones are killed at their work and not at imports.
    """
    code = start(action, said, learn).wait()
    if learn:
        for name in Path(f"{said}.modules").read_text().split("\n"):
            if name not in sys.modules and not name.startswith("__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
    text = said.read_text(errors="replace")
    if code != expected or "Traceback" in text:
        raise Between(f"exit code {code}: {text[-1500:]}")


# ---- the loop


def run(
    make: Callable[[Path], Scene],
    folder: Path,
    rounds: int,
    seed: int = 1,
    first: int = 0,
    told: Callable[[Tally], object] = lambda tally: None,
) -> Tally:
    """Kill the command of a scene ``rounds`` times below ``folder``, an empty one. Raises Between.

    ``first``: the number of the first round; its dice are of ``seed`` and that number. ``told`` hears of every round.
    """
    kept, now, said = folder / "kept", folder / "now", folder / "said"
    now.mkdir(parents=True)
    make(now)
    shutil.copytree(now, kept, symlinks=True)
    scene = _again(make, kept, now)
    old = scene.look()
    finished(scene.action, said, scene.code, learn=True)
    finished(scene.after, said, learn=True)
    new = scene.look()
    if old == new and scene.holds is _nothing_wrong:
        raise Between("the command changes nothing of what is looked at: no kill could be seen")
    scene = _again(make, kept, now)
    began = time.monotonic()
    finished(scene.action, said, scene.code)
    took = time.monotonic() - began
    tally = Tally()
    for number in range(first, first + rounds):
        dice = random.Random(f"{seed}-{number}")
        scene = _again(make, kept, now)
        share = dice.uniform(0, 1.15)
        moment = took * share
        signals = dice.choice([(signal.SIGKILL, False)] * 3 + [(signal.SIGKILL, True), (signal.SIGTERM, False)])
        where = f"round {number}, {signals[0].name} after {moment:.3f} s of {took:.3f} s"
        running = start(scene.action, said)
        time.sleep(moment)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if signals[1] else os.kill)(running.pid, signals[0])
        code = running.wait()
        tally.rounds += 1
        killed = code != scene.code
        tally.killed += killed
        if killed and share > 0.9:  # a busy machine: follow it, or no kill comes late enough, or every one too late
            took *= 1.3
        elif not killed and share < 1:
            took *= 0.9
        try:
            finished(scene.after, said)
            seen = scene.look()
            fault = scene.holds()
            if fault:
                raise Between(fault)
            if seen == old:
                tally.old += 1
            elif seen == new:
                tally.new += 1
            elif scene.between and not strange(seen, old, new):
                tally.between += 1
            else:
                raise Between(f"neither old nor new: {_told(seen, old, new)}")
            if seen != new or scene.repeats:
                finished(scene.action, said, scene.code)
                finished(scene.after, said)
                if (last := scene.look()) != new:
                    raise Between(f"the same command again gives something else: {_told(last, old, new)}")
        except Between as error:
            raise Between(f"{where}: {error}") from None
        told(tally)
    return tally


def _again(make: Callable[[Path], Scene], kept: Path, now: Path) -> Scene:
    """The scene as it was first, in the same place: paths in files stay true."""
    for _ in range(200):  # what a killed command started may still be at work there
        with contextlib.suppress(OSError):
            shutil.rmtree(now)
            break
        time.sleep(0.05)
    shutil.copytree(kept, now, symlinks=True)
    return make(now)


def strange(seen: Look, old: Look, new: Look) -> list[str]:
    """The names whose content is neither the old nor the new one."""
    absent = object()
    return [
        name
        for name in {*seen, *old, *new}
        if seen.get(name, absent) not in (old.get(name, absent), new.get(name, absent))
    ]


def _told(seen: Look, old: Look, new: Look) -> str:
    names = strange(seen, old, new) or [name for name in {*seen, *old, *new} if old.get(name) != new.get(name)]
    return "; ".join(f"{name}: {str(seen.get(name))[:300]!r}" for name in sorted(names)[:6])


# ---- looking

_HIDDEN = re.compile(r"\..*\.(part|lock)|\.lock")
_DATE = re.compile(rb"^Date: .*$", re.MULTILINE)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, which need not be there; not the hidden ones that a killed write leaves, nor locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(_HIDDEN.fullmatch(name) for name in path.relative_to(folder).parts)
    }


def project_files(project: Path) -> dict[str, bytes]:
    """The series and the patches."""
    return {f"{name}/{key}": data for name in ("series", "patches") for key, data in files(project / name).items()}


def look_at(world: World, *more: Path) -> Look:
    """HEAD and branches, work tree, what git thinks is edited, the project's files; dates are left out."""
    seen: dict[str, Any] = {key: _DATE.sub(b"", data) for key, data in project_files(world.project).items()}
    for folder in more:
        seen |= {f"{folder.name}/{key}": data for key, data in files(folder).items()}
    if (world.source / ".git").exists():
        seen |= {
            "HEAD": _DATE.sub(b"", git(world.source, "log", "--format=%T %s%n%an <%ae>%n%b").encode()),
            "branches": git(world.source, "for-each-ref", "--format=%(refname) %(tree)", "refs/heads"),
            "status": git(world.source, "status", "--porcelain", "-uno"),
            **{f"src/{name}": data for name, data in contents(world.source).items()},
        }
    return seen


# ---- scenes of the stack


def _stacked(prepare: Callable[[World], object], *arguments: str, **options: Any) -> Callable[[Path], Scene]:
    """A verb of the stack on the usual world, after ``prepare``, with an edit of a person's in the tree."""
    stdin = options.pop("stdin", b"")

    def make(folder: Path) -> Scene:
        if not (folder / "project").exists():
            world = usual_world(folder)
            prepare(world)
            (world.source / "README.md").write_text(MINE)
        world = World(folder, None)
        words = [word.format(folder=folder) for word in arguments]

        def holds() -> str:
            return "" if (world.source / "README.md").read_text() == MINE else "a person's edit is gone"

        return Scene(
            decouple(folder, words[0], RELEASE, *words[1:], stdin=stdin, VISUAL="true", EDITOR="true"),
            lambda: look_at(world, folder / "out"),
            decouple(folder, "series", RELEASE, "--applied"),
            holds=holds,
            **options,
        )

    return make


def _pushed(count: int | None) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        from decouple.stack.engine import Stack

        with Stack.open(world.places) as stack:
            stack.push(count)

    return prepare


def _committed(world: World) -> None:
    _pushed(None)(world)
    core = world.source / "torch/core.py"
    core.write_text(core.read_text().replace("line 40\n", "line forty\n"))
    git(world.source, "commit", "-qam", "A new patch")


def _edited(world: World) -> None:
    _pushed(2)(world)
    core = world.source / "torch/core.py"
    core.write_text(core.read_text().replace("line 39\n", "line thirty-nine\n"))


def _unknown_file(world: World) -> None:
    _pushed(None)(world)
    (world.source / "torch/fresh.py").write_text("fresh = 1\n")


def _branched(world: World) -> None:
    _pushed(None)(world)
    with set_variables(DECOUPLE_PROJECT=str(world.project)):
        assert main(["branch", RELEASE]) == 0
    git(world.source, "worktree", "add", "-q", str(world.project / "build/beside"), f"series-{RELEASE}")
    beside = world.project / "build/beside"
    core = beside / "torch/core.py"
    core.write_text(core.read_text().replace("line 38\n", "line thirty-eight\n"))
    git(beside, "commit", "-qam", "On the branch")


def _importable(world: World) -> None:
    _pushed(1)(world)
    patch = (world.project / "patches/2.6/0002-hooks.patch").read_text()
    patch = patch.replace("hooks", "others").replace("line 7", "line 17")
    (world.project.parent / "others.patch").write_text(patch)


HEADER = (
    "From: Ada Lovelace <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\nSubject: another title\n\n"
    "Decouple-Id: split\nForwarded: no\n---\n"
)
FOLDED = (
    "diff --git a/setup.py b/setup.py\n--- a/setup.py\n+++ b/setup.py\n@@ -1,4 +1,4 @@\n"
    " #!/usr/bin/env python\n-line 1\n+line one\n line 2\n line 3\n"
)


def sources(folder: Path) -> tuple[Path, Path]:
    """A project without a tree, with manifests of two releases, and the folders of both beside it."""
    from tests.unit.flows.test_examples import manifest

    project, source, newer = folder / "project", folder / "source", folder / "newer"
    if not project.exists():
        world = usual_world(folder / "world")
        shutil.copytree(world.project, project, ignore=shutil.ignore_patterns("build"))
        for release in ("2.6", "2.7"):
            nothing = '[[source]]\nprovider = "git"\nurl = "file:///nonexistent"\n\n'  # no network is asked
            text = re.sub(r"\[\[source\]\].*?(?=\[toolchain\])", nothing, manifest(release), flags=re.S)
            (project / "series" / f"{release}.toml").write_text(text, encoding="utf-8")
        git(folder, "clone", "-q", str(world.upstream), str(source))
        shutil.rmtree(source / ".git")
        shutil.copytree(source, newer)
        (newer / "torch/core.py").write_text("a line above\n" + LINES)
        shutil.rmtree(folder / "world")
    return source, newer


def _cold_apply(folder: Path) -> Scene:
    source, _ = sources(folder)
    tree = folder / "project/build/2.6/src"

    def look() -> Look:
        if not tree.exists():
            return {"tree": "none"}
        head = git(tree, "rev-parse", "HEAD")
        if head == git(tree, "rev-parse", "refs/decouple/base"):
            return {"tree": "none"}  # made, and nothing on it yet: the rest is one transaction
        return {"HEAD": head, "status": git(tree, "status", "--porcelain"), **contents(tree)}

    return Scene(decouple(folder, "apply", RELEASE, "--source", f"local:{source}"), look)


def _warm_apply(folder: Path) -> Scene:
    """A tree where one patch was taken off and another was changed since."""
    source, _ = sources(folder)
    project = folder / "project"
    words = ("apply", RELEASE, "--source", f"local:{source}")
    tree = project / "build/2.6/src"
    if not tree.exists():
        said = folder / "said"
        finished(decouple(folder, *words), said)
        finished(decouple(folder, "pop", RELEASE), said)
        patch = project / "patches/2.6/0002-hooks.patch"
        patch.write_text(patch.read_text().replace("ask the hook", "ask another hook"))

    def look() -> Look:
        return {"HEAD": git(tree, "rev-parse", "HEAD"), "status": git(tree, "status", "--porcelain"), **contents(tree)}

    return Scene(decouple(folder, *words), look, decouple(folder, "series", RELEASE, "--applied"))


def _rebase(folder: Path) -> Scene:
    source, newer = sources(folder)
    project = folder / "project"

    def look() -> Look:
        seen = project_files(project)
        if "series/2.7" not in seen:  # bodies that no series names are not yet of the project
            return {name: data for name, data in seen.items() if not name.startswith("patches/2.7/")}
        return seen

    words = ("rebase", "2.6", "2.7", "--replace", "--source", f"local:{newer}", "--from-source", f"local:{source}")
    return Scene(decouple(folder, *words), look, repeats=False)


def _stopped_rebase(folder: Path) -> Scene:
    """A rebase that stops for a person, who finds the conflict in a work tree; started over when it is given again."""
    from decouple.rebase import rebase_state

    source, newer = sources(folder)
    (newer / "torch/core.py").write_text(LINES.replace("line 7\n", "line 7: upstream asks somebody else\n"))
    project = folder / "project"
    state, tree = project / "build/rebase/state.json", project / "build/rebase/src"

    def look() -> Look:
        seen: dict[str, Any] = dict(project_files(project))
        if (waiting := rebase_state.load_state(state)) and waiting.stopped_at:
            seen |= {"stopped": waiting.stopped_at, "status": git(tree, "status", "--porcelain"), **contents(tree)}
        return seen

    def action() -> int:
        waiting = rebase_state.load_state(state)
        start = ["2.6", "2.7", "--replace", "--source", f"local:{newer}", "--from-source", f"local:{source}"]
        words = ["--restart" if waiting.stopped_at else "--continue"] if waiting else start
        return decouple(folder, "rebase", *words)()

    return Scene(action, look, code=1)


def _settled_rebase(folder: Path) -> Scene:
    """A person settled the conflict in plain git: that is in no other place until the rebase has gone on."""
    begun, project = _stopped_rebase(folder), folder / "project"
    tree = project / "build/rebase/src"
    if not (project / "build/rebase/state.json").exists() and not (project / "series/2.7").exists():
        finished(begun.action, folder / "said", 1)
        (tree / "torch/core.py").write_text(LINES.replace("line 7\n", "line 7: both are asked\n"))
        git(tree, "add", "torch/core.py")

    def look() -> Look:
        whole = (project / "series/2.7").exists()  # what was settled may be remembered before
        return {"series": files(project / "series"), "patches": files(project / "patches")} if whole else {}

    return Scene(decouple(folder, "rebase", "--continue"), look, repeats=False)


# ---- scenes of wheels and indexes


def _wheels_world(folder: Path) -> None:
    """A site with the two wheels of a checkout, wheels of a second build, keys; the checkout has a series of one patch
    where there was none."""
    from tests.unit.index.wheels import make_pair

    project = folder / "project"
    if not project.exists():
        (project / "patches/2.6").mkdir(parents=True)
        (project / "patches/2.6/0001-one.patch").write_bytes(b"Decouple-Id: one\n---\n")
        (project / "series").mkdir()
        (project / "series/2.6").write_text("2.6/0001-one.patch\n")
    if not (folder / "dist").exists():
        from decouple.index import provenance, release_list, site
        from decouple.series.digest import compute_series_digest

        digest = compute_series_digest(project, RELEASE)
        make_pair(folder / "dist", series=digest, core_members={"torch/large": random.Random(1).randbytes(4 << 20)})
        make_pair(folder / "next", series=digest, revision=2)
        site.build_site(folder / "dist", folder / "site")
        provenance.make_key(folder / "key")
        release_list.sign_lists(folder / "site", folder / "key", None, 30)


def _checked(site: Path) -> str:
    """What is wrong with a site, seen as a browser would: links without a file, files with other bytes."""
    import hashlib
    import json

    for page in sorted(site.glob("simple/*/index.json")):
        for row in json.loads(page.read_text())["files"]:
            path = (page.parent / row["url"].replace("%2B", "+")).resolve()
            if not path.is_file():
                return f"{page}: links to {path}, which is not there"
            if hashlib.sha256(path.read_bytes()).hexdigest() != row["hashes"]["sha256"]:
                return f"{path}: other bytes than the page says"
    for page in sorted(site.glob("simple/*/index.html")):
        for link in re.findall(r'href="([^"#]+)#sha256=', page.read_text()):
            if not (page.parent / link.replace("%2B", "+")).resolve().is_file():
                return f"{page}: links to {link}, which is not there"
    return ""


def _index_build(folder: Path) -> Scene:
    _wheels_world(folder)
    site = folder / "site"
    words = ("index", "build", folder / "next", "--site", site)
    return Scene(decouple(folder, *words), lambda: files(site), between=True, holds=lambda: _checked(site))


def _index_new(folder: Path) -> Scene:
    _wheels_world(folder)
    site = folder / "other"
    words = ("index", "build", folder / "dist", "--site", site)
    return Scene(
        decouple(folder, *words),
        lambda: files(site),
        between=True,
        holds=lambda: _checked(site),
    )


def _index_yank(folder: Path) -> Scene:
    _wheels_world(folder)
    site = folder / "site"
    words = ("index", "yank", "torch-2.6.0+decoupled.1-py3-none-any.whl", "--reason", "broken", "--site", site)
    return Scene(decouple(folder, *words), lambda: files(site), between=True, holds=lambda: _checked(site))


def _index_sign(folder: Path) -> Scene:
    _wheels_world(folder)
    wheels = sorted(str(path) for path in (folder / "dist").glob("*.whl"))
    words = ("index", "sign", "--key", folder / "key", *wheels)
    return Scene(decouple(folder, *words), lambda: files(folder / "dist"), between=True)


def _wheels(folder: Path) -> Scene:
    _wheels_world(folder)
    got = folder / "project/dist/2.6"
    words = ("wheels", RELEASE, "--index", folder / "site/simple", "--cuda", "cu124")
    return Scene(decouple(folder, *words), lambda: files(got), between=True)


def _listed_wheels(folder: Path) -> Scene:
    _wheels_world(folder)
    shutil.copyfile(folder / "site/tuf/root.json", folder / "root.json")
    got = folder / "project/dist/2.6"
    words = ("wheels", RELEASE, "--index", folder / "site/simple", "--root", folder / "root.json")
    return Scene(decouple(folder, *words, "--cuda", "cu124"), lambda: files(got), between=True)


# ---- scenes of a build


def _build(folder: Path) -> Scene:
    """Stage 1 of a tree with the interface that upstream's has; configured before, one source newer."""
    from decouple.build.environment import HostEnvironment, Places
    from decouple.build.options import Choices, Provenance
    from decouple.build.stage import BuildJob
    from decouple.build.stage1 import Stage1
    from tests.unit.build.conftest import make_tree

    places = Places.of_release(folder, RELEASE, folder / "cache", folder / "src")
    places = replace(places, project=ROOT)
    here = f"{Path(sys.executable).parent}{os.pathsep}"  # this Python is the one that builds
    path = here + os.environ["PATH"].removeprefix(here)
    upstream = {"version": "2.6.0", "tag": "v2.6.0", "commit": "0" * 40}
    known = Provenance("2.6.0", upstream, (), "2" * 64, (), "4" * 64, None)
    choices = Choices(variables={"CMAKE_C_COMPILER_LAUNCHER": "", "CMAKE_CXX_COMPILER_LAUNCHER": ""})
    if not (folder / "src").exists():
        make_tree(folder / "src")
        places.create_folders()
        with set_variables(PATH=path):
            Stage1(BuildJob(HostEnvironment(places), known, choices)).build_wheel()
        for number in range(4):
            (folder / f"src/part{number}.c").write_text(f"int part{number}(void) {{ return 4{number}; }}\n")
        git(folder / "src", "commit", "-qam", "newer")

    def action() -> int:
        def built() -> int:
            with set_variables(PATH=path):
                Stage1(BuildJob(HostEnvironment(places), known, choices)).build_wheel()
            return 0

        return run_to_end(built, ["build"])

    return Scene(action, lambda: files(places.dist), between=True)


def _new_device(folder: Path) -> Scene:
    project = folder / "project"
    if not project.exists():
        (project / "patches").mkdir(parents=True)
        (project / "series").mkdir()
        shutil.copytree(ROOT / "third_device/template", project / "third_device/template")
    made = project / "third_device/torch_acme"
    return Scene(
        decouple(folder, "new-device", "acme"),
        lambda: files(made),
        between=True,
    )


def _bisect(folder: Path) -> Scene:
    """Every place where a search stands is one where `push` or `pop` could have left the tree."""
    if not (folder / "project").exists():
        world = World(folder, {"setup.py": "", "core.txt": LINES})
        world.patch("0001-nine", {"core.txt": LINES.replace("line 9\n", "line nine\n")})
        world.patch("0002-seven", {"core.txt": LINES.replace("line 7\n", "line seven\n")})
        world.create()
    world = World(folder, None)

    def holds() -> str:
        return git(world.source, "status", "--porcelain")

    words = ("bisect", RELEASE, "--", "grep", "-q", "line 7$", "core.txt")
    return Scene(
        decouple(folder, *words),
        lambda: project_files(world.project),
        lambda: decouple(folder, "series", RELEASE, "--top")() and 0,  # 1 where nothing is applied
        holds=holds,
        code=1,
    )


# ---- scenes of wheels made from wheels, and of what writes single files


def _halves_world(folder: Path) -> None:
    """A core and a torch_cuda wheel of one Python, the latter whole and split."""
    from decouple.build.wheel_split import split_wheel
    from tests.unit.index.wheels import make_wheel

    if not (folder / "halves").exists():
        (folder / "project").mkdir()
        tag, dice = "cp313-cp313-linux_x86_64", random.Random(2)
        make_wheel(
            folder / "core", "torch", "2.6.0+decoupled", tag=tag, extra_members={"torch/x": dice.randbytes(1 << 20)}
        )
        library = {"torch_cuda/lib/libtorch_cuda.so": dice.randbytes(2 << 20)}
        asks = ("torch==2.6.0+decoupled",)
        whole = make_wheel(
            folder / "whole", "torch-cuda", "2.6.0+cu124", requires=asks, cuda="12.4", tag=tag, extra_members=library
        )
        split_wheel(whole, folder / "halves")


def _split(folder: Path) -> Scene:
    _halves_world(folder)
    words = ("repack", "split", folder / "whole/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl")
    return Scene(decouple(folder, *words), lambda: files(folder / "whole/split"), between=True)


def _pair(folder: Path) -> Scene:
    _halves_world(folder)
    core = folder / "core/torch-2.6.0+decoupled-cp313-cp313-linux_x86_64.whl"
    bindings = folder / "halves/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"
    words = ("repack", "pair", core, bindings, "--out", folder / "paired")
    return Scene(decouple(folder, *words), lambda: files(folder / "paired"), between=True)


def _relocate(folder: Path) -> Scene:
    from tests.unit.census import planted

    sources(folder)
    tree = folder / "coupled"
    if not tree.exists():
        planted.tree(tree)
    project = folder / "project"
    words = ("relocate", RELEASE, "--write", "--tree", tree)
    return Scene(decouple(folder, *words), lambda: files(project / "patches"))


def _record(folder: Path) -> Scene:
    """The file is there already and says something else."""
    source, _ = sources(folder)
    project = folder / "project"
    words = ("record", RELEASE, "--source", f"local:{source}")
    if not (project / "ci").exists():
        finished(decouple(folder, *words), folder / "said")
        patch = project / "patches/2.6/0002-hooks.patch"
        patch.write_text(patch.read_text().replace("ask the hook", "ask another hook"))
    return Scene(decouple(folder, *words), lambda: files(project / "ci"))


def _manifest(folder: Path) -> Scene:
    """A tree's facts over those of an older state of it."""
    source, _ = sources(folder)
    project = folder / "project"
    if not (project / "series/acme-2.6.toml").exists():
        (source / "version.txt").write_text("2.6.0a0\n")
        words = ("manifest", "fill", "acme-2.6", "--tree", source, "--write")
        finished(decouple(folder, *words), folder / "said")
        (source / "version.txt").write_text("2.6.1a0\n")
    words = ("manifest", "fill", "acme-2.6", "--tree", source, "--write")
    return Scene(decouple(folder, *words), lambda: files(project / "series"))


def _status_table(folder: Path) -> Scene:
    project = folder / "project"
    if not project.exists():
        for name in ("README.md", "docs/proofs.md", "docs/rebase.md"):
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, project / name)
        shutil.copytree(ROOT / "ci/status", project / "ci/status")
        shutil.copyfile(project / "ci/status/2.6.json", project / "ci/status/acme.json")  # what the pages lack
        for name in ("series", "patches"):
            (project / name).mkdir()
    return Scene(decouple(folder, "status-table"), lambda: files(project), between=True)


def _fetch(folder: Path) -> Scene:
    """A git baseline in the cache of what a folder has; hidden folders of a killed run are deleted by the next."""
    source, _ = sources(folder)

    def look() -> Look:
        found = [path for path in (folder / "cache").rglob("*.git") if not path.name.startswith(".")]
        return {git(path, "rev-parse", "refs/heads/upstream^{tree}"): b"" for path in found}

    return Scene(decouple(folder, "fetch", RELEASE, "--source", f"local:{source}"), look)


def _index_key(folder: Path) -> Scene:
    """A key is another one each time: what is looked at is which halves there are."""
    (folder / "project").mkdir(exist_ok=True)

    def look() -> Look:
        return {path.name: path.stat().st_mode for path in folder.glob("mine*")}

    return Scene(decouple(folder, "index", "key", folder / "mine"), look, between=True, repeats=False)


def _sign_list(folder: Path) -> Scene:
    """The lists have dates and numbers: what counts is that a client of before takes them once the next run is over."""
    _wheels_world(folder)
    site = folder / "site"
    if not (folder / "root.json").exists():
        shutil.copyfile(site / "tuf/root.json", folder / "root.json")
    sign = decouple(folder, "index", "sign-list", "--site", site, "--key", folder / "key")

    def holds() -> str:
        said = folder / "said"
        check = ("index", "check", site, "--root", folder / "root.json")
        code = start(decouple(folder, *check), said).wait()
        return said.read_text() if code else ""

    return Scene(sign, lambda: dict.fromkeys(files(site), b""), sign, holds=holds)


def _variants(folder: Path) -> Scene:
    _halves_world(folder)
    bindings = folder / "halves/torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"
    words = ("repack", "variants", bindings, "--out", folder / "labelled")
    return Scene(decouple(folder, *words), lambda: files(folder / "labelled"), between=True)


def _thin(folder: Path) -> Scene:
    from tests.unit.build import test_wheel_thinning

    if not (folder / "whole").exists():
        test_wheel_thinning.whole(folder / "whole")
    (wheel,) = (folder / "whole").glob("*.whl")
    words = ("repack", "thin", wheel, "--arch", "9.0", "--out", folder / "one")
    thin = command(*map(str, words), DECOUPLE_CACHE=str(folder / "cache"))
    return Scene(thin, lambda: files(folder / "one"), between=True)


def _upstream(folder: Path) -> Scene:
    """The mails of a patch over those of an older text."""
    world, source = folder / "project", folder / "source"
    words = ("upstream", "patch", "hooks", "--release", RELEASE, "--on", source, "--out", folder / "mails")
    if not world.exists():
        sources(folder)
        text = world / "series/upstream/hooks.toml"
        text.parent.mkdir()
        (text.parent / "only-here.toml").write_text("schema = 1\nname = []\n")
        test = '[test]\nfile = "test/test_7.py"\nrun = "python test/test_7.py"\nfails = "line 7"\ntext = "1\\n"\n'
        asked = 'schema = 1\nid = "hooks"\ntitle = "Ask"\nmotivation = "A device asks."\nchange = "Line 7."\n'
        text.write_text(asked + test)
        finished(decouple(folder, *words), folder / "said")
        text.write_text(asked.replace("A device", "Any device") + test)
    return Scene(decouple(folder, *words), lambda: files(folder / "mails"))


def _census(folder: Path) -> Scene:
    """Both reports over those of an earlier run."""
    from tests.unit.census import planted

    sources(folder)
    tree, reports = folder / "coupled", folder / "reports"
    if not tree.exists():
        planted.tree(tree)
        reports.mkdir()
        for name in ("census.json", "census.html"):
            (reports / name).write_text("of an earlier run\n")
    words = ("census", RELEASE, "--before", "--source", f"local:{tree}", "--jobs", "1")
    words += ("--json", str(reports / "census.json"), "--html", str(reports / "census.html"))
    return Scene(decouple(folder, *words), lambda: files(reports), between=True)


def _contract_table(folder: Path) -> Scene:
    project = folder / "project"
    if not project.exists():
        (project / "docs").mkdir(parents=True)
        page = (ROOT / "docs/backends.md").read_text(encoding="utf-8")
        items = page.partition("<!-- items:begin -->")[2]
        first = next(line for line in items.splitlines() if line.startswith("| 1 |"))
        (project / "docs/backends.md").write_text(page.replace(first + "\n", ""), encoding="utf-8")  # a row is missing
        for name in ("third_device/contract", "tests/contract"):
            shutil.copytree(ROOT / name, project / name)
        for name in ("series", "patches"):
            (project / name).mkdir()
    return Scene(decouple(folder, "contract", "--table"), lambda: files(project / "docs"))


def _clean(folder: Path) -> Scene:
    """What is deleted goes file by file; wheels stay."""
    project = folder / "project"
    if not project.exists():
        names = ("build/2.6/stage1/a/b.o", "build/2.6/stage2/c.o", "dist/2.6/x.whl", "series/2.6", "patches/x")
        write_files(project, dict.fromkeys(names, ""))
        for number in range(300):
            (project / f"build/2.6/stage1/a/{number}.o").write_text("object")
    return Scene(decouple(folder, "clean", RELEASE), lambda: files(project), between=True)


VERBS: dict[str, Callable[[Path], Scene]] = {
    "push": _stacked(_pushed(1), "push", "-a", repeats=False),
    "pop": _stacked(_pushed(None), "pop", "2.6/0001-relocate.patch", repeats=False),
    "refresh, a commit": _stacked(_committed, "refresh"),
    "refresh, an edit": _stacked(_edited, "refresh", repeats=False),
    "new": _stacked(_pushed(2), "new", "between", "-m", "A title", repeats=False),
    "fold": _stacked(_pushed(None), "fold", stdin=FOLDED.encode(), repeats=False),
    "add": _stacked(_unknown_file, "add", "torch/fresh.py"),
    "rename": _stacked(_pushed(None), "rename", "2.6/0002-hooks.patch", "2.6/0002-others.patch", repeats=False),
    "delete": _stacked(_pushed(None), "delete", "-r", repeats=False),
    "import": _stacked(_importable, "import", "{folder}/others.patch", repeats=False),
    "export": _stacked(_pushed(None), "export", "{folder}/out", between=True),
    "header": _stacked(_pushed(None), "header", "-r", stdin=HEADER.encode()),
    "branch": _stacked(_pushed(None), "branch", "--force"),
    "branch --back": _stacked(_branched, "branch", "--back", repeats=False),
    "bisect": _bisect,
    "apply, warm": _warm_apply,
    "apply, cold": _cold_apply,
    "rebase": _rebase,
    "rebase, a conflict": _stopped_rebase,
    "rebase, a conflict settled": _settled_rebase,
    "wheels": _wheels,
    "wheels, from a signed list": _listed_wheels,
    "index build": _index_build,
    "index build, a new site": _index_new,
    "index yank": _index_yank,
    "index sign": _index_sign,
    "index sign-list": _sign_list,
    "index key": _index_key,
    "split": _split,
    "pair": _pair,
    "relocate --write": _relocate,
    "record": _record,
    "manifest fill --write": _manifest,
    "status-table": _status_table,
    "fetch": _fetch,
    "build": _build,
    "new-device": _new_device,
    "add --edit": _stacked(_unknown_file, "add", "--edit", "torch/fresh.py"),
    "variants": _variants,
    "thin": _thin,
    "upstream": _upstream,
    "census --json --html": _census,
    "contract --table": _contract_table,
    "clean": _clean,
}
"""Every verb that writes, as a scene of its own."""
