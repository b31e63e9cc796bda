"""quilt's verbs on the applied tree of a release, and ``apply``, ``refresh``, ``status``, ``branch``, ``from-branch``.

Every verb takes a release as its first argument. It may be left out below ``build/<release>`` and where there is just
one series.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError, UsageError

if TYPE_CHECKING:
    from decouple.base.git import Repository
    from decouple.stack.engine import Moved, Places, Stack
    from decouple.stack.writeback import Written

Parser = argparse.ArgumentParser


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str, arguments: str = "") -> Parser:
        parser = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        what = f"[RELEASE] {arguments}".strip()
        parser.add_argument("words", nargs="*", metavar=what, help="the release, e.g. 2.6, then what the verb acts on")
        parser.set_defaults(run=run)
        return parser

    apply = verb("apply", _apply, "fetch a release and bring build/RELEASE/src to the whole series and the overlay")
    apply.add_argument("--source", default="auto", help="auto, a source of the manifest, or local:PATH")
    apply.add_argument("--debian-patches", action="store_true", help="lay Debian's own patches under ours")
    apply.add_argument("--offline", action="store_true", help="use the cache only")
    status = verb("status", _status, "how far the applied tree, the series and the patches agree")
    status.add_argument("--json", action="store_true", help="print it as JSON")

    push = verb("push", _push, "apply the next patch, N patches, or those up to NAME", "[N|NAME]")
    push.add_argument("-a", "--all", action="store_true", help="apply all of them, then the overlay")
    push.add_argument("--no-overlay", action="store_true", help="leave the overlay off")
    pop = verb("pop", _pop, "take off the top patch, N patches, or those above NAME", "[N|NAME]")
    pop.add_argument("-a", "--all", action="store_true", help="take off all of them")
    verb("top", _top, "name the topmost applied patch")
    series = verb("series", _series, "list the patches of the series")
    series.add_argument("-v", "--verbose", action="store_true", help="mark applied patches with +, the top one with =")
    verb("applied", _applied, "list the applied patches")
    verb("unapplied", _unapplied, "list the patches that are not applied")

    new = verb("new", _new, "start an empty patch on top of the applied ones", "NAME")
    new.add_argument("-m", "--title", help="one line that says what it does")
    verb("add", _add, "put new files under version control, so that refresh takes them", "FILE...")
    verb("edit", _edit, "add files and open them in $EDITOR", "FILE...")
    refresh = verb("refresh", _refresh, "write the commits and edits of the tree back to patches/")
    refresh.add_argument("-p", "--patch", help="put uncommitted edits into this patch instead of the top one")
    refresh.add_argument("--drop", action="store_true", help="take patches whose commit is gone out of the series")
    refresh.add_argument(
        "--rewrite", action="append", default=[], metavar="NAME", help="write this diff anew in any case"
    )
    fold = verb("fold", _fold, "merge a diff from standard input or a file into the top patch", "[FILE]")
    _strip(fold)
    verb("rename", _rename, "give a patch (the top one) another name", "[OLD] NEW")
    delete = verb("delete", _delete, "take a patch (the top one) out of the series", "[NAME]")
    delete.add_argument("-r", "--remove", action="store_true", help="delete its file as well")
    taken = verb("import", _import, "copy patch files into the series behind the top patch", "FILE...")
    taken.add_argument("-P", "--name", help="call the patch this")
    _strip(taken)
    verb("export", _export, "write the applied patches as the tree has them now to a folder", "FOLDER")

    verb("show", _show, "print a patch (the top one)", "[NAME]")
    verb("diff", _diff, "print the top patch with the uncommitted edits", "[FILE...]")
    header = verb("header", _header, "print, edit (-e) or replace (-r, from standard input) a patch's header", "[NAME]")
    how = header.add_mutually_exclusive_group()
    how.add_argument("-e", "--edit", action="store_true", help="open it in $EDITOR")
    how.add_argument("-r", "--replace", action="store_true", help="read it from standard input")

    branch = verb("branch", _branch, "make a git branch of the whole series")
    branch.add_argument("--repo", type=Path, help="the repository (default: the applied tree)")
    branch.add_argument("--name", help="the branch (default: series-RELEASE)")
    branch.add_argument("--base", help="the commit to stand on (default: the release's)")
    branch.add_argument("--force", action="store_true", help="replace the branch")
    back = verb("from-branch", _from_branch, "write the commits of a git branch back to patches/")
    back.add_argument("--repo", type=Path, help="the repository (default: the applied tree)")
    back.add_argument("--branch", help="the branch or commit (default: series-RELEASE)")
    back.add_argument("--base", help="the commit it stands on (default: the release's)")
    back.add_argument("--drop", action="store_true", help="take patches without a commit out of the series")


def _strip(parser: Parser) -> None:
    parser.add_argument("-s", "--strip", type=int, default=1, metavar="N", help="leading path components to strip (1)")


# ---- what the words mean


def _where(arguments: argparse.Namespace) -> tuple[Places, list[str]]:
    """The release's places, and the words that are left. Raises UsageError if the release is not clear."""
    from decouple.base.paths import find_project
    from decouple.stack.engine import Places, releases

    project = find_project()
    have = releases(project)
    words: list[str] = list(arguments.words)
    if words and words[0] in have:
        return Places.of(project, words[0]), words[1:]
    here = Path.cwd().resolve()
    for release in have:
        if here.is_relative_to((project / "build" / release).resolve()):
            return Places.of(project, release), words
    if arguments.command in ("apply", "status", "refresh", "branch", "from-branch") and words:
        Places.of(project, words[0])  # says which releases there are
    if len(have) == 1:
        return Places.of(project, have[0]), words
    raise UsageError("which release?", next_step=f"name one of {', '.join(have) or 'none'} first")


def _open(
    arguments: argparse.Namespace, most: int = 0, least: int = 0
) -> tuple[AbstractContextManager[Stack], list[str]]:
    from decouple.stack.engine import Stack

    places, words = _where(arguments)
    if not least <= len(words) <= most:
        few = f"{arguments.command} takes " + (f"{least} to {most}" if least != most else f"{most}")
        raise UsageError(f"{few} arguments beside the release, not {len(words)}", next_step="see --help")
    return _told(Stack.open(places)), words


class _told(AbstractContextManager["Stack"]):
    """Opens a stack and says what was done about a command that had been cut off."""

    def __init__(self, inner: AbstractContextManager[Stack]) -> None:
        self._inner = inner

    def __enter__(self) -> Stack:
        stack = self._inner.__enter__()
        for line in stack.recovered:
            print(f"decouple: {line}", file=sys.stderr)
        return stack

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)  # type: ignore[arg-type]


def _one(stack: Stack, words: list[str]) -> str:
    """The patch that is named, or the top one."""
    if words:
        return stack.find(words[0])
    if stack.top is None:
        raise DecoupleError("no patch is applied", next_step="name one, or push first")
    return stack.top


# ---- apply, status


def _apply(arguments: argparse.Namespace) -> int:
    from decouple.cli.output import progress
    from decouple.stack.release import apply_release

    places, words = _where(arguments)
    if words or places.project is None:
        raise UsageError(f"apply takes a release, not {' '.join(words)}", next_step="see `decouple apply --help`")
    apply_release(
        places.project,
        places.release,
        source=arguments.source,
        debian_patches=arguments.debian_patches,
        offline=arguments.offline,
        say=print,
        progress=progress(),
    )
    return OK


def _status(arguments: argparse.Namespace) -> int:
    """Exit 0 if everything agrees, 1 if not."""
    from decouple.stack.release import status

    places, words = _where(arguments)
    if words or places.project is None:
        raise UsageError(f"status takes a release, not {' '.join(words)}", next_step="see `decouple status --help`")
    found = status(places.project, places.release)
    if arguments.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(found) | {"clean": found.clean}, indent=2, default=str))
        return OK if found.clean else CHECK_FAILED
    wide = max((len(patch.name) for patch in found.patches), default=0)
    print(f"{'patch':<{wide}}  {'+':>6} {'-':>6} {'quoted':>6} {'renames':>7}  state")
    for patch in found.patches:
        size = patch.size
        note = f", {patch.offsets} hunks with an offset" if patch.offsets else ""
        print(
            f"{patch.name:<{wide}}  {size.added:>6} {size.removed:>6} {size.context:>6} {size.renames:>7}  "
            f"{patch.state}{note}"
        )
    sizes = [patch.size for patch in found.patches if patch.size.in_file]
    added, removed, quoted = (sum(getattr(size, key) for size in sizes) for key in ("added", "removed", "context"))
    print(
        f"{len(sizes)} in-file patches: {added + removed} changed lines (+{added} -{removed}), "
        f"{quoted} upstream lines quoted as context"
    )
    if not found.applied:
        print(f"tree: none at {found.tree}; `decouple apply {found.release}` makes it")
        return CHECK_FAILED
    print(f"tree: {found.tree} on {found.base[:12]}; overlay {found.overlay}")
    for title in found.commits:
        print(f"  commit in no patch: {title}")
    for path in found.edited:
        print(f"  uncommitted edit: {path}")
    for note in found.notes:
        print(f"  {note}")
    return OK if found.clean else CHECK_FAILED


# ---- moving


def _amount(arguments: argparse.Namespace, words: list[str]) -> str | int | None:
    if arguments.all:
        if words:
            raise UsageError(f"-a and {words[0]!r} exclude each other", next_step="give one of them")
        return None
    if not words:
        return 1
    return int(words[0]) if words[0].isdigit() and len(words[0]) < 4 else words[0]


def _push(arguments: argparse.Namespace) -> int:
    opened, words = _open(arguments, most=1)
    with opened as stack:
        moved = stack.push(_amount(arguments, words), overlay=not arguments.no_overlay)
        return _say_moved(moved, nothing="everything is applied")


def _pop(arguments: argparse.Namespace) -> int:
    opened, words = _open(arguments, most=1)
    with opened as stack:
        return _say_moved(stack.pop(_amount(arguments, words)), nothing="nothing is applied")


def _say_moved(moved: Moved, nothing: str) -> int:
    if not moved.pushed and not moved.popped and not moved.overlay and not moved.stopped:
        print(nothing)
        return CHECK_FAILED  # as quilt: asked to move, and there is nowhere to go
    if moved.overlay == "taken off":
        print("overlay taken off")
    for name in moved.popped:
        print(f"removed {name}")
    for name in moved.pushed:
        print(f"applied {name}")
        for offset in moved.offsets.get(name, ()):
            print(f"  {offset}")
    if moved.overlay == "laid":
        print("overlay laid")
    print(f"now at {moved.top or 'the bare source'} ({moved.files} files touched)")
    if moved.stopped:
        raise moved.stopped
    return OK


def _top(arguments: argparse.Namespace) -> int:
    opened, _ = _open(arguments)
    with opened as stack:
        print(_one(stack, []))
    return OK


def _series(arguments: argparse.Namespace) -> int:
    from decouple.patch import seriesfile
    from decouple.stack.engine import Stack

    places, _ = _where(arguments)
    if not arguments.verbose:
        print("\n".join(seriesfile.read(places.series).names))
        return OK
    with _told(Stack.open(places)) as stack:
        for name in stack.series.names:
            print("=" if name == stack.top else "+" if name in stack.applied else " ", name)
    return OK


def _applied(arguments: argparse.Namespace) -> int:
    opened, _ = _open(arguments)
    with opened as stack:
        for name in stack.applied:
            print(name)
    return OK


def _unapplied(arguments: argparse.Namespace) -> int:
    opened, _ = _open(arguments)
    with opened as stack:
        for name in stack.unapplied:
            print(name)
    return OK


# ---- changing


def _new(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=1, least=1)
    with opened as stack:
        print(f"now at {edits.new(stack, words[0], title=arguments.title)}")
    return OK


def _paths(stack: Stack, words: list[str]) -> list[str]:
    """Files given relative to where the user stands, or to the tree, as paths in the tree."""
    paths = []
    for word in words:
        here = Path.cwd() / word
        inside = here if here.resolve().is_relative_to(stack.places.source.resolve()) else stack.places.source / word
        try:
            paths.append(str(inside.resolve().relative_to(stack.places.source.resolve())))
        except ValueError:
            raise UsageError(f"{word} is outside {stack.places.source}", next_step="name a file of the tree") from None
    return paths


def _add(arguments: argparse.Namespace) -> int:
    opened, words = _open(arguments, most=10_000, least=1)
    with opened as stack:
        paths = _paths(stack, words)
        for path in paths:
            if not (stack.places.source / path).exists():
                raise UsageError(f"{path} is not in the tree", next_step="make the file first, then add it")
        stack.repository.run("add", "--intent-to-add", "--force", "--", *paths)
        for path in paths:
            print(f"{path} goes into {_one(stack, [])} at the next refresh")
    return OK


def _edit(arguments: argparse.Namespace) -> int:
    opened, words = _open(arguments, most=10_000, least=1)
    with opened as stack:
        _one(stack, [])  # there must be a patch to take the edits
        source, paths = stack.places.source, _paths(stack, words)
    code = _editor([source / path for path in paths])  # without the lock: a person takes their time
    if code:
        return code
    return _add(arguments)


def _refresh(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, _ = _open(arguments)
    with opened as stack:
        into = stack.find(arguments.patch) if arguments.patch else None
        rewrite = [stack.find(name) for name in arguments.rewrite]
        done = edits.refresh(stack, into=into, drop=arguments.drop, rewrite=rewrite)
        for path in done.taken:
            print(f"{path}: edits go into {done.into}")
        _say_written(done.written)
    return OK


def _say_written(written: Written) -> None:
    for name in written.added:
        print(f"new {name}")
    for name in written.changed:
        print(f"rewritten {name}")
    for old, name in written.renamed.items():
        print(f"{old} is now {name}")
    for name in written.dropped:
        print(f"dropped {name}")
    for name in written.newer:
        print(f"{name} changed on disk since it was applied; `decouple apply` takes it up")
    if not written.files:
        print("nothing to write: the patches say what the tree says")


def _fold(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=1)
    data = Path(words[0]).read_bytes() if words else sys.stdin.buffer.read()
    with opened as stack:
        done = edits.fold(stack, data, strip=arguments.strip)
        for path in done.taken:
            print(f"{path}: folded into {done.into}")
    return OK


def _rename(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=2, least=1)
    with opened as stack:
        old = _one(stack, words[:-1])
        print(f"{old} is now {edits.rename(stack, old, words[-1])}")
    return OK


def _delete(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=1)
    with opened as stack:
        name = _one(stack, words)
        edits.delete(stack, name, remove_file=arguments.remove)
        print(f"{name} is out of the series" + (", its file is deleted" if arguments.remove else ""))
    return OK


def _import(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=10_000, least=1)
    with opened as stack:
        files = [Path(word) for word in words]
        for name in edits.import_files(stack, files, name=arguments.name, strip=arguments.strip):
            print(f"{name} is in the series; push applies it")
    return OK


def _export(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=1, least=1)
    with opened as stack:
        written = edits.export_to(stack, Path(words[0]))
        print(f"{len(written.patches)} patches and their series in {words[0]}")
    return OK


# ---- looking


def _show(arguments: argparse.Namespace) -> int:
    opened, words = _open(arguments, most=1)
    with opened as stack:
        sys.stdout.buffer.write(stack.patch(_one(stack, words)).data)
    return OK


def _diff(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=10_000)
    with opened as stack:
        sys.stdout.buffer.write(edits.working_diff(stack, _paths(stack, words)))
    return OK


def _header(arguments: argparse.Namespace) -> int:
    from decouple.stack import edits

    opened, words = _open(arguments, most=1)
    with opened as stack:
        name = _one(stack, words)
        text = stack.patch(name).header_text
        if arguments.replace:
            edits.set_header(stack, name, sys.stdin.read())
            return OK
    if not arguments.edit:
        sys.stdout.write(text)
        return OK
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "header.patch"
        draft.write_text(text, "utf-8", "surrogateescape")
        code = _editor([draft])
        changed = draft.read_text("utf-8", "surrogateescape")
    if code == OK and changed != text:
        opened, _ = _open(arguments, most=1)
        with opened as stack:
            edits.set_header(stack, name, changed)
    return code


def _editor(files: list[Path]) -> int:
    import os
    import shlex
    import subprocess

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    return subprocess.run([*shlex.split(editor), *map(str, files)], check=False).returncode


# ---- branches


def _branch(arguments: argparse.Namespace) -> int:
    from decouple.stack import branch

    places, words = _where(arguments)
    if words:
        raise UsageError(f"branch takes no {words[0]!r}", next_step="see `decouple branch --help`")
    repository, base = _repository(arguments, places)
    made = branch.to_branch(
        places, repository, arguments.name or f"series-{places.release}", base, force=arguments.force
    )
    print(f"branch {made.name} in {made.repository}: {len(made.patches)} commits on {made.base[:12]}")
    return OK


def _from_branch(arguments: argparse.Namespace) -> int:
    from decouple.stack import branch

    places, _ = _where(arguments)
    repository, base = _repository(arguments, places)
    opened, _ = _open(arguments, most=0)
    with opened as stack:
        revision = arguments.branch or f"series-{places.release}"
        written = branch.from_branch(stack, repository, revision, base, drop=arguments.drop)
        _say_written(written)
        if written.files:
            print(f"`decouple apply {places.release}` brings the applied tree to it")
    return OK


def _repository(arguments: argparse.Namespace, places: Places) -> tuple[Repository, str]:
    from decouple.release.manifest import load_release
    from decouple.stack import branch

    repository = branch.open_repository(arguments.repo or places.source)
    if arguments.base:
        return repository, arguments.base
    if arguments.repo is None:
        return repository, "refs/decouple/base"
    assert places.project
    manifest = load_release(places.project, places.release)
    return repository, next(
        (name for name in (manifest.commit, manifest.tag) if repository.resolve(name)), manifest.tag
    )
