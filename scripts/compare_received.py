"""Compare what import and push make of other people's patches with ``git am``.

The patches are in a folder.

    python scripts/compare_received.py FOLDER [--json FILE]

A row for each: "equal" (tree, author, date, title and text), "equal with OPTION" (of git am), "both refuse", "only
git am" or "only we", then what differs or why it is refused, in one line. All are for the tree of `FILES`; one that
goes on where another ends names it in `AFTER`. Of what only we take, author and title are compared with
``git mailinfo``. Exit code 1 when both take a patch and make different things of it.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.received import Outcome, by_git_am, by_us, fresh, mailinfo
from tests.support.series import World

from decouple.patch.mail import DATE

_LINES = "".join(f"int a{number}();\n" for number in range(60))
FILES: dict[str, str | bytes] = {
    "torch/csrc/a.cpp": _LINES,
    "torch/csrc/b.cpp": _LINES.replace("a", "b"),
    "crlf.bat": b"".join(b"echo %d\r\n" % number for number in range(30)),
    "version.txt": "9.9.0\n",
    "nonl.txt": "one\ntwo\nthree",
    "tab.mk": "all:\n\techo 1\n\techo 2\n",
    "scripts/run.sh": "#!/bin/sh\necho hi\n",
    "café.txt": "1\n2\n3\n",
    "dir with space/f.txt": "x\ny\nz\n",
    "empty.txt": "",
    "latin.txt": "caf\xe9\nna\xefve\nplain\n".encode("latin-1"),
    "logo.bin": bytes(range(256)),
}
LINKS = {"link": "torch/csrc/a.cpp"}
AFTER = {"d09b-": "d09-adds-a-patch.patch", "d26-": "d26a-gap.patch"}
"""How a patch's name begins -> the patch that is applied before it."""
_NOW = 600
"""Seconds."""
_SAME = ("tree", "name", "address", "date", "message")


def row_of(world: World, folder: Path, patch: Path) -> tuple[str, str]:
    """Return what became of a patch, in a word, and the details."""
    before = [patch.parent / name for begin, name in AFTER.items() if patch.name.startswith(begin)]
    ours = _import_patches(world, folder, [*before, patch], 1)
    options: tuple[str, ...] = ()
    if not ours.commit and (other := _import_patches(world, folder, [*before, patch], 0)).commit:
        ours, options = other, ("-p0",)
    theirs = by_git_am(world, folder / "am", *before, patch, options=options)
    if ours.commit and not theirs.commit and b"\r\n" in patch.read_bytes():
        options = (*options, "--keep-cr")
        theirs = by_git_am(world, folder / "am", *before, patch, options=options)
    if not ours.commit:
        words = ours.words.removeprefix("decouple: ").replace(f"{patch.parent}/", "").replace("\n", ";")
        return ("only git am" if theirs.commit else "both refuse"), words
    if not theirs.commit:
        said = mailinfo(patch.read_bytes(), folder)
        same = all(said.get(key) in (None, value) for key, value in ours.commit.as_mail().items())
        read = "read as git mailinfo" if same and "Author" in said else "no mail"
        return "only we", f"{ours.commit.as_mail()} ({read}); git am: {theirs.words[:90]}"
    differ = [name for name in _SAME if getattr(ours.commit, name) != getattr(theirs.commit, name)]
    if "date" in differ and ours.commit.date == DATE and time.time() - int(theirs.commit.date.split()[0]) < _NOW:
        differ.remove("date")  # the mail has none: git am takes the time of day
    told = "; ".join(f"{name}: {getattr(ours.commit, name)!r}, not {getattr(theirs.commit, name)!r}" for name in differ)
    return ("differs" if differ else " ".join(("equal", *(f"with {option}" for option in options)))), told


def _import_patches(world: World, folder: Path, patches: list[Path], strip: int) -> Outcome:
    return by_us(fresh(world, folder / "us"), *patches, strip=strip)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "world").mkdir()
        world = World(folder / "world", FILES, links=LINKS)
        world.create()
        rows = {}
        for patch in sorted(options.folder.resolve().iterdir()):
            rows[patch.name] = row_of(world, folder, patch)
            print(patch.name, *rows[patch.name], sep="\t", flush=True)
    count = collections.Counter(kind for kind, _ in rows.values())
    print(*(f"{number} {kind}" for kind, number in count.most_common()), sep=", ")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if count["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
