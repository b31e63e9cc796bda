"""Define quilt's verbs; ``refresh`` writes edits and commits back to patches."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from decouple.base.checkout import SeriesPlaces
from decouple.base.errors import OK, DecoupleError, UsageError
from decouple.base.files import find_free_name, write_atomically
from decouple.cli.stack_words import find_patch, find_paths, open_stack, open_stack_at, parse_words
from decouple.cli.verbs import add_verb
from decouple.stack import edits
from decouple.stack.series_update import SeriesUpdate


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    new = add_verb(subparsers, "new", _run_new, "NAME")
    new.add_argument("-m", "--title", help="one line that says what it does")
    add = add_verb(subparsers, "add", _run_add, "FILE...")
    add.add_argument("-e", "--edit", action="store_true", help="open them in $EDITOR first")
    refresh = add_verb(subparsers, "refresh", _run_refresh)
    refresh.add_argument("-p", "--patch", help="put uncommitted edits into this patch instead of the top one")
    refresh.add_argument("--drop", action="store_true", help="take patches whose commit is gone out of the series")
    refresh.add_argument(
        "--rewrite", action="append", default=[], metavar="NAME", help="write this diff anew in any case"
    )
    fold = add_verb(subparsers, "fold", _run_fold, "[FILE]")
    _add_strip(fold)
    add_verb(subparsers, "rename", _run_rename, "[OLD] NEW")
    delete = add_verb(subparsers, "delete", _run_delete, "[NAME]")
    delete.add_argument("-r", "--remove", action="store_true", help="delete its file as well")
    taken = add_verb(subparsers, "import", _run_import, "FILE...")
    taken.add_argument("-P", "--name", help="call the patch this")
    _add_strip(taken)
    add_verb(subparsers, "export", _run_export, "FOLDER")

    add_verb(subparsers, "show", _run_show, "[NAME]")
    add_verb(subparsers, "diff", _run_diff, "[FILE...]")
    header = add_verb(
        subparsers,
        "header",
        _run_header,
        "[NAME]",
    )
    how = header.add_mutually_exclusive_group()
    how.add_argument("-e", "--edit", action="store_true", help="open it in $EDITOR")
    how.add_argument("-r", "--replace", action="store_true", help="read it from standard input")


def _add_strip(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--strip", type=int, default=1, metavar="N", help="leading path components to strip (1)")


def _run_new(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1, least=1) as (stack, words):
        print(f"now at {edits.create_patch(stack, words[0], title=arguments.title)}")
    return OK


def _run_add(arguments: argparse.Namespace) -> int:
    if arguments.edit and (code := _edit_files(arguments)):
        return code
    with open_stack(arguments, most=10_000, least=1) as (stack, words):
        files = find_paths(stack, words)
        for path in files:
            if not os.path.lexists(stack.places.tree / path):
                raise UsageError(f"{path} is not in the tree", next_step="make the file first, then add it")
        with stack.journal.note_index_lock():
            stack.repository.run("add", "--intent-to-add", "--force", "--", *files)
        for path in files:
            print(f"{path} goes into {find_patch(stack, [])} at the next refresh")
    return OK


def _edit_files(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=10_000, least=1) as (stack, words):
        find_patch(stack, [])  # there must be a patch to take the edits
        files = [stack.places.tree / path for path in find_paths(stack, words)]
    return _open_editor(files)  # without the lock: a person takes their time


def _run_refresh(arguments: argparse.Namespace) -> int:
    with open_stack(arguments) as (stack, _):
        done = edits.refresh_patches(stack, into=arguments.patch, drop=arguments.drop, rewrite=arguments.rewrite)
        for path in done.taken:
            print(f"{path}: edits go into {done.into}")
        print_written(done.written)
    return OK


def _run_fold(arguments: argparse.Namespace) -> int:
    places, words = parse_words(arguments, most=1)
    data = Path(words[0]).read_bytes() if words else sys.stdin.buffer.read()
    with open_stack_at(places) as stack:
        done = edits.fold_diff(stack, data, strip=arguments.strip)
        for path in done.taken:
            print(f"{path}: folded into {done.into}")
        print_shared(done.written)
    return OK


def _run_rename(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=2, least=1) as (stack, words):
        old = find_patch(stack, words[:-1])
        print(f"{old} is now {edits.rename_patch(stack, old, words[-1])}")
    return OK


def _run_delete(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1) as (stack, words):
        name = find_patch(stack, words)
        edits.delete_patch(stack, name, remove_file=arguments.remove)
        print(f"{name} is out of the series" + (", its file is deleted" if arguments.remove else ""))
    return OK


def _run_import(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=10_000, least=1) as (stack, words):
        files = [Path(word) for word in words]
        for name in edits.import_files(stack, files, name=arguments.name, strip=arguments.strip):
            print(f"{name} is in the series; push applies it")
    return OK


def _run_export(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1, least=1) as (stack, words):
        written = edits.export_patches(stack, Path(words[0]))
        print(f"{len(written.patches)} patches and their series in {words[0]}")
    return OK


def _run_show(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1) as (stack, words):
        sys.stdout.buffer.write(stack.read_patch(find_patch(stack, words)).data)
    return OK


def _run_diff(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=10_000) as (stack, words):
        sys.stdout.buffer.write(edits.make_working_diff(stack, find_paths(stack, words)))
    return OK


def _run_header(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1) as (stack, words):
        places, name = stack.places, find_patch(stack, words)
        text = stack.read_patch(name).header_text
        if arguments.replace:
            edits.set_header(stack, name, sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))
            return OK
    if not arguments.edit:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        return OK
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "header.patch"
        draft.write_text(text, "utf-8", "surrogateescape")
        code = _open_editor([draft])
        changed = draft.read_bytes().decode("utf-8", "surrogateescape")
    if code == OK and changed != text:
        edits.refuse_empty_header(name, changed)
        _take_header(places, name, text, changed)
    return code


def _take_header(places: SeriesPlaces, name: str, before: str, text: str) -> None:
    """Make ``text`` the header that was ``before``.

    What a person wrote is kept in a file until it is one. Raises DecoupleError where the header is another one by now:
    the stack was not locked while the editor was open.
    """
    kept = find_free_name(places.tree.parent / f"{Path(name).stem}.header")
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, text.encode("utf-8", "surrogateescape"))
    try:
        with open_stack_at(places) as stack:
            if stack.read_patch(name).header_text != before:
                raise DecoupleError(
                    f"{name}: its header changed while the editor was open",
                    next_step=f"put into the new text what `decouple header {places.release} {name}` shows",
                )
            edits.set_header(stack, name, text)
    except DecoupleError as error:
        again = f"`decouple header {places.release} {name} -r < {shlex.quote(str(kept))}`"
        step = "; ".join(filter(None, [error.next_step, f"the new text is kept: {again} takes it"]))
        raise DecoupleError(error.what, next_step=step, code=error.code) from error
    kept.unlink()


def _open_editor(files: list[Path]) -> int:
    name = next((name for name in ("VISUAL", "EDITOR") if os.environ.get(name, "").strip()), "EDITOR")
    editor, step = os.environ.get(name, "").strip() or "vi", f"set {name} to the command of an editor"
    try:
        return subprocess.run([*shlex.split(editor), *map(str, files)], check=False).returncode
    except ValueError as error:  # of shlex
        raise UsageError(f"{name} is {editor}: {error}", next_step=step) from None
    except OSError as error:
        raise DecoupleError(f"the editor {editor} cannot be started: {error.strerror}", next_step=step) from None


def print_shared(written: SeriesUpdate) -> None:
    """Name the releases whose series changed with a patch."""
    for name, releases in written.shared.items():
        for release in releases:
            print(f"{name} is in series {release}, too: `decouple check {release}` says whether it applies there")


def print_written(written: SeriesUpdate) -> None:
    """Print what became of each patch."""
    for name in written.added:
        print(f"new {name}")
    for name in written.changed:
        print(f"rewritten {name}")
    print_shared(written)
    for old, name in written.renamed.items():
        print(f"{old} is now {name}")
    for name in written.dropped:
        print(f"dropped {name}")
    for name in written.newer:
        print(f"{name} changed on disk since it was applied; `decouple apply` takes it up")
    if not written.files:
        print("nothing to write: the patches say what the tree says")
