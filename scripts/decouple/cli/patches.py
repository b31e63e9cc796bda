"""quilt's verbs that make, change and show patches; ``refresh`` writes edits and commits of the tree back to them."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from decouple.base.errors import OK, UsageError
from decouple.cli.stack_words import named, open_at, opened, patch, paths
from decouple.cli.verbs import verb
from decouple.stack import edits
from decouple.stack.writeback import Written


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    new = verb(subparsers, "new", _new, "NAME")
    new.add_argument("-m", "--title", help="one line that says what it does")
    verb(subparsers, "add", _add, "FILE...")
    verb(subparsers, "edit", _edit, "FILE...")
    refresh = verb(subparsers, "refresh", _refresh)
    refresh.add_argument("-p", "--patch", help="put uncommitted edits into this patch instead of the top one")
    refresh.add_argument("--drop", action="store_true", help="take patches whose commit is gone out of the series")
    refresh.add_argument(
        "--rewrite", action="append", default=[], metavar="NAME", help="write this diff anew in any case"
    )
    fold = verb(subparsers, "fold", _fold, "[FILE]")
    _strip(fold)
    verb(subparsers, "rename", _rename, "[OLD] NEW")
    delete = verb(subparsers, "delete", _delete, "[NAME]")
    delete.add_argument("-r", "--remove", action="store_true", help="delete its file as well")
    taken = verb(subparsers, "import", _import, "FILE...")
    taken.add_argument("-P", "--name", help="call the patch this")
    _strip(taken)
    verb(subparsers, "export", _export, "FOLDER")

    verb(subparsers, "show", _show, "[NAME]")
    verb(subparsers, "diff", _diff, "[FILE...]")
    header = verb(
        subparsers,
        "header",
        _header,
        "[NAME]",
    )
    how = header.add_mutually_exclusive_group()
    how.add_argument("-e", "--edit", action="store_true", help="open it in $EDITOR")
    how.add_argument("-r", "--replace", action="store_true", help="read it from standard input")


def _strip(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--strip", type=int, default=1, metavar="N", help="leading path components to strip (1)")


def _new(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1, least=1) as (stack, words):
        print(f"now at {edits.new(stack, words[0], title=arguments.title)}")
    return OK


def _add(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=10_000, least=1) as (stack, words):
        files = paths(stack, words)
        for path in files:
            if not (stack.places.tree / path).exists():
                raise UsageError(f"{path} is not in the tree", next_step="make the file first, then add it")
        with stack.journal.locking_index():
            stack.repository.run("add", "--intent-to-add", "--force", "--", *files)
        for path in files:
            print(f"{path} goes into {patch(stack, [])} at the next refresh")
    return OK


def _edit(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=10_000, least=1) as (stack, words):
        patch(stack, [])  # there must be a patch to take the edits
        files = [stack.places.tree / path for path in paths(stack, words)]
    code = _editor(files)  # without the lock: a person takes their time
    if code:
        return code
    return _add(arguments)


def _refresh(arguments: argparse.Namespace) -> int:
    with opened(arguments) as (stack, _):
        into = stack.find(arguments.patch) if arguments.patch else None
        rewrite = [stack.find(name) for name in arguments.rewrite]
        done = edits.refresh(stack, into=into, drop=arguments.drop, rewrite=rewrite)
        for path in done.taken:
            print(f"{path}: edits go into {done.into}")
        say_written(done.written)
    return OK


def _fold(arguments: argparse.Namespace) -> int:
    places, words = named(arguments, most=1)
    data = Path(words[0]).read_bytes() if words else sys.stdin.buffer.read()
    with open_at(places) as stack:
        done = edits.fold(stack, data, strip=arguments.strip)
        for path in done.taken:
            print(f"{path}: folded into {done.into}")
    return OK


def _rename(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=2, least=1) as (stack, words):
        old = patch(stack, words[:-1])
        print(f"{old} is now {edits.rename(stack, old, words[-1])}")
    return OK


def _delete(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1) as (stack, words):
        name = patch(stack, words)
        edits.delete(stack, name, remove_file=arguments.remove)
        print(f"{name} is out of the series" + (", its file is deleted" if arguments.remove else ""))
    return OK


def _import(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=10_000, least=1) as (stack, words):
        files = [Path(word) for word in words]
        for name in edits.import_files(stack, files, name=arguments.name, strip=arguments.strip):
            print(f"{name} is in the series; push applies it")
    return OK


def _export(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1, least=1) as (stack, words):
        written = edits.export_to(stack, Path(words[0]))
        print(f"{len(written.patches)} patches and their series in {words[0]}")
    return OK


def _show(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1) as (stack, words):
        sys.stdout.buffer.write(stack.patch(patch(stack, words)).data)
    return OK


def _diff(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=10_000) as (stack, words):
        sys.stdout.buffer.write(edits.working_diff(stack, paths(stack, words)))
    return OK


def _header(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1) as (stack, words):
        name = patch(stack, words)
        text = stack.patch(name).header_text
        if arguments.replace:
            edits.set_header(stack, name, sys.stdin.read())
            return OK
    if not arguments.edit:
        sys.stdout.write(text)
        return OK
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "header.patch"
        draft.write_text(text, "utf-8", "surrogateescape")
        code = _editor([draft])
        changed = draft.read_text("utf-8", "surrogateescape")
    if code == OK and changed != text:
        with opened(arguments, most=1) as (stack, _):
            edits.set_header(stack, name, changed)
    return code


def _editor(files: list[Path]) -> int:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    return subprocess.run([*shlex.split(editor), *map(str, files)], check=False).returncode


def say_written(written: Written) -> None:
    """What became of each patch."""
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
