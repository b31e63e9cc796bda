"""Patches as other people's tools write them: what ``git am`` makes of each is what import and push make of it."""

from __future__ import annotations

import base64
import contextlib
import io
import quopri
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.patch import mail
from decouple.series.check import check_series
from decouple.stack import edits
from decouple.stack.engine import Stack
from tests.support.reader import Reader
from tests.support.series import ENVIRONMENT, RELEASE, UPSTREAM, World, git

LINES = "".join(f"int f{number}();\n" for number in range(20))
FILES: dict[str, str | bytes] = {
    "core/a.cpp": LINES,
    "dos.bat": LINES.replace("\n", "\r\n"),
    "run.sh": "#!/bin/sh\necho one\n",
    "logo.bin": bytes(range(256)),
}
ENVELOPE = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
FROM = "From: Ada Lovelace <ada@example.org>\n"
DATE = "Date: Thu, 2 Jan 2025 03:04:05 +0100\n"
SUBJECT = "Subject: [PATCH 1/2] f5 takes an argument\n"
BODY = "\nThe caller knows it.\n\nOrigin: vendor\nDecouple-Id: argument\n---\n"
DIFF = """\
diff --git a/core/a.cpp b/core/a.cpp
--- a/core/a.cpp
+++ b/core/a.cpp
@@ -3,7 +3,7 @@
 int f2();
 int f3();
 int f4();
-int f5();
+int f5(int);
 int f6();
 int f7();
 int f8();
"""
NEW = """\
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1,2 @@
+x = 1
+é = '='
"""
ADDED = "+int f5(int);"
NEW_IN_CR_LF = NEW.replace("\n+x = 1\n+é = '='\n", "\n+x = 1\r\n+é = '='\r\n")
MIME = "MIME-Version: 1.0\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n"
FOLDED = (
    "Subject: [PATCH] A title so long that git format-patch folds it, as every mail\n program does with its fields\n"
)


def encoded(encoding: str, *, charset: str = "UTF-8", text: str = BODY + DIFF + NEW) -> bytes:
    """A mail whose text is encoded."""
    raw = text.removeprefix("\n").encode(charset)
    body = base64.encodebytes(raw) if encoding == "base64" else quopri.encodestring(raw)
    return (FROM + DATE + SUBJECT + MIME.format(charset=charset, encoding=encoding) + "\n").encode() + body


#: What git am takes: the same tree and commit.
TAKEN: dict[str, str | bytes] = {
    "git format-patch": ENVELOPE + FROM + DATE + SUBJECT + BODY + " core/a.cpp | 2 +-\n\n" + DIFF + "-- \n2.39.5\n\n",
    "folded subject": ENVELOPE + FROM + DATE + FOLDED + BODY + DIFF,
    "folded from": "From: Ada\n Lovelace\n <ada@example.org>\n" + DATE + SUBJECT + BODY + DIFF,
    "subject folded at a tab": FROM + DATE + "Subject: f5 takes\n\tan argument\n" + BODY + DIFF,
    "encoded words": FROM.replace("Ada", "=?UTF-8?q?Ad=C3=A1?=") + DATE
    + "Subject: [PATCH] =?UTF-8?q?caf=C3=A9:=20f5=20takes=20an=20argument=20?=\n =?UTF-8?q?=C3=A9?=\n"
    + MIME.format(charset="UTF-8", encoding="8bit") + BODY + DIFF,
    "encoded words in base64 and Latin-1": "From: =?ISO-8859-1?B?SvZyZw==?= <j@example.org>\n" + DATE
    + SUBJECT + BODY + DIFF,
    "text in Latin-1, said": (FROM + DATE + SUBJECT + MIME.format(charset="ISO-8859-1", encoding="8bit")
    + BODY.replace("caller", "café") + DIFF).encode("latin-1"),
    "text in Latin-1, not said": (FROM.replace("Ada", "Adá") + DATE + SUBJECT + BODY.replace("caller", "café") + DIFF
    ).encode("latin-1"),
    "quoted-printable": encoded("quoted-printable"),
    "base64": encoded("base64"),
    "quoted-printable, Latin-1": encoded("quoted-printable", charset="ISO-8859-1", text=BODY.replace("er", "é") + DIFF),
    "author in the text": "From: List <list@example.org>\n" + DATE + SUBJECT + "\n" + FROM + BODY + DIFF,
    "author, date and title in the text": "From: List <list@example.org>\n" + DATE + "Subject: Fwd\n\n" + FROM
    + "Date: Mon, 6 Jan 2025 03:04:05 -0500\nSubject: f5 takes an argument\n" + BODY + DIFF,
    "address first": "From: ada@example.org (Ada Lovelace)\n" + DATE + SUBJECT + BODY + DIFF,
    "name in quotes": 'From: "Lovelace, Ada (ACME)" <ada@example.org>\n' + DATE + SUBJECT + BODY + DIFF,
    "only an address": "From: <ada@example.org>\n" + DATE + SUBJECT + BODY + DIFF,
    "an angle in the name": "From: A < Lovelace <ada@example.org>\n" + DATE + SUBJECT + BODY + DIFF,
    "marks at the ends of the name": "From: .Ada, <ada@example.org>\n" + DATE + SUBJECT + BODY + DIFF,
    "ISO date": FROM + "Date: 2025-01-02 03:04:05 +0100\n" + SUBJECT + BODY + DIFF,
    "date in seconds": FROM + "Date: @1735787045 -0330\n" + SUBJECT + BODY + DIFF,
    "date with a name of a zone": FROM + "Date: Thu, 2 Jan 2025 03:04:05 -0800 (PST)\n" + SUBJECT + BODY + DIFF,
    "zone that is none": FROM + "Date: Thu, 2 Jan 2025 03:04:05 +9999\n" + SUBJECT + BODY + DIFF,
    "30 February": FROM + "Date: Sun, 30 Feb 2025 03:04:05 +0000\n" + SUBJECT + BODY + DIFF,
    "second 60": FROM + "Date: Thu, 2 Jan 2025 03:04:60 +0000\n" + SUBJECT + BODY + DIFF,
    "no title": FROM + DATE + "Subject: [PATCH] \n" + BODY + DIFF,
    "no title, and lines": FROM + DATE + "Subject:\n\nOne line\nand another.\n\nMore.\n---\n" + DIFF,
    "fields to the end": FROM + SUBJECT + "\n" + DATE + DIFF,
    "an answer": FROM + DATE + "Subject: Re: [PATCH v2 1/2] Re: [core] f5: an argument\n" + BODY + DIFF,
    "mail's own fields": "Received: by example.org\nMessage-ID: <1@example.org>\nX-Mailer: x\nTo: b@example.org\n"
    + FROM + DATE + SUBJECT + BODY + DIFF,
    "lower case": FROM.lower() + DATE.replace("Date", "date") + SUBJECT.replace("Subject", "subject") + BODY + DIFF,
    "CR LF above the diff": (ENVELOPE + FROM + DATE + FOLDED + BODY).replace("\n", "\r\n") + DIFF,
    "all of it in CR LF": (ENVELOPE + FROM + DATE + FOLDED + BODY + DIFF + NEW).replace("\n", "\r\n"),
    "a rule in the text": FROM + DATE + SUBJECT + "\nOne.\n\n---\nTwo: three\n\n---\n" + DIFF,
    "Mercurial": "# HG changeset patch\n# User Ada Lovelace <ada@example.org>\n# Date 1735787045 -3600\n"
    "# Node ID 0123\nf5: an argument\n\nWhy.\n\n" + DIFF,
    "StGit": "f5: an argument\n\n" + FROM + DATE + "\nWhy.\n---\n\n" + DIFF,
    "mode 100664": FROM + DATE + SUBJECT + BODY + NEW.replace("100644", "100664"),
    "mode 100775": FROM + DATE + SUBJECT + BODY + "diff --git a/run.sh b/run.sh\nold mode 100664\nnew mode 100775\n",
}  # fmt: skip

LADY = "Ada Lovelace <ada@example.org>"
NOBODY = "decouple <decouple@localhost>"

#: What git am refuses and git apply takes: the author, the date and the title that make sense.
DESCRIBED: dict[str, tuple[str | bytes, tuple[str, str, str]]] = {
    "DEP-3": (
        "Description: f5 takes an argument\n More.\nAuthor: Ada <ada@example.org>\nLast-Update: 2024-02-29\n---\n",
        ("Ada <ada@example.org>", "1709164800 +0000", "f5 takes an argument"),
    ),
    "no day": (
        "Description: x\nFrom: Ada <ada@example.org>\nLast-Update: 2024-13-45\n---\n",
        ("Ada <ada@example.org>", mail.DATE, "x"),
    ),
    "30 February": ("Description: x\nLast-Update: 2023-02-30\n---\n", (NOBODY, mail.DATE, "x")),
    "year 0": ("Description: x\nLast-Update: 0000-00-00\n---\n", (NOBODY, mail.DATE, "x")),
    "two authors": (
        "Description: x\nAuthor: A <a@example.org>, B <b@example.org>\n\n",
        ("A <a@example.org>", mail.DATE, "x"),
    ),
    "no address": ("Description: x\nAuthor: The people\n\n", ("The people <decouple@localhost>", mail.DATE, "x")),
    "description below": ("Description:\n f5 takes it\n More.\n\n", (NOBODY, mail.DATE, "f5 takes it")),
    "encoded DEP-3": (
        "Description: x\nAuthor: =?UTF-8?q?Ad=C3=A1?= <a@example.org>\n\n",
        ("Adá <a@example.org>", mail.DATE, "x"),
    ),
    "a word and a colon": ("jit: an argument\n\nWhy.\n\n---\n\n", (NOBODY, mail.DATE, "jit: an argument")),
    "a path and a colon": ("core/a: an argument\n\nWhy.\n", (NOBODY, mail.DATE, "core/a: an argument")),
    "words": ("Just words, no author.\n\n", (NOBODY, mail.DATE, "Just words, no author.")),
    "byte order mark": (
        b"\xef\xbb\xbf" + (FROM + DATE + SUBJECT + BODY).encode(),
        ("Ada Lovelace <ada@example.org>", "1735783445 +0100", "f5 takes an argument"),
    ),
    "no date": (
        FROM + "Date: Thu, 99 Foo 2025 03:04:05 +0000\n" + SUBJECT + BODY,
        (LADY, mail.DATE, "f5 takes an argument"),
    ),
    "year of two digits": (FROM + "Date: Thu, 2 Jan 25 03:04:05 -0800\n" + SUBJECT + BODY,
    (LADY, mail.DATE, "f5 takes an argument")),
    "a maintainer's fields above a mail": (
        "Origin: upstream, https://example.org/1\nBug: https://example.org/2\n\n" + ENVELOPE + FROM + DATE + FOLDED
        + BODY,
        (
            LADY,
            "1735783445 +0100",
            "A title so long that git format-patch folds it, as every mail program does with its fields",
        ),
    ),
    "a description above a mail": (
        "Description: f5 takes an argument\n\n" + ENVELOPE + FROM.replace("Ada", "=?UTF-8?q?Ad=C3=A1?=") + DATE
        + SUBJECT + BODY,
        ("Adá Lovelace <ada@example.org>", "1735783445 +0100", "f5 takes an argument"),
    ),
    "nothing": ("", (NOBODY, mail.DATE, "0001-nothing.patch")),
}  # fmt: skip

ONE = ENVELOPE + FROM + SUBJECT + BODY
#: What is refused, and a word of what is to be done about it.
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "two mails": (ONE + DIFF + "-- \n2\n\n" + ONE + NEW, "mailsplit"),
    "a letter and a mail": (ENVELOPE + FROM + SUBJECT + "\nAll.\n\n" + ONE + NEW, "mailsplit"),
    "a new file in CR LF": (FROM + SUBJECT + BODY + NEW_IN_CR_LF, "sed"),
    "a new file with one line in CR LF": (FROM + SUBJECT + BODY + NEW_IN_CR_LF.replace("\r", "", 1), "sed"),
    "a line in CR LF among others": (FROM + SUBJECT + BODY + DIFF.replace(ADDED, ADDED + "\r"), "sed"),
    "a NUL": (FROM.replace("Ada", "A\0da") + SUBJECT + BODY + DIFF, "take it out"),
    "UTF-16": (("\ufeff" + FROM + SUBJECT + BODY + DIFF).encode("utf-16-le"), "iconv"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(20), "gunzip"),
    "colours": (ONE + DIFF.replace("cpp\n", "cpp\x1b[m\n"), "no-color"),
    "a binary file": (FROM + SUBJECT + BODY + "diff --git a/logo.bin b/logo.bin\nindex 1..2 100644\nGIT binary patch\n"
                      "literal 1\nIcmZPo000310RR91\n\nliteral 1\nIcmZPo000310RR91\n\n", "third_device"),
    "a submodule": (FROM + SUBJECT + BODY + "diff --git a/m b/m\nindex 1..2 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n"
                    "-Subproject commit 1\n+Subproject commit 2\n", "submodules"),
    "an unknown character set": (FROM + DATE + "Subject: =?X-NONE?q?=E9?=\n" + BODY + DIFF, "UTF-8"),
}  # fmt: skip


_COMMIT = "%T%x00%an%x00%ae%x00%ad%x00%B"


@dataclass(frozen=True)
class Commit:
    """A commit as far as a patch says it."""

    tree: str
    name: str
    address: str
    date: str
    message: str

    @classmethod
    def at(cls, repository: Path, revision: str = "HEAD") -> Commit:
        """The commit that ``revision`` names; the message without what the stack adds."""
        out = git(repository, "log", "-1", "--date=raw", f"--format={_COMMIT}", revision)
        tree, name, address, date, message = out.split("\0")
        lines = [line for line in message.split("\n") if not line.startswith("Decouple-Patch: ")]
        return cls(tree, name, address, date, "\n".join(lines).strip("\n"))


@dataclass(frozen=True)
class Outcome:
    """What became of a patch: the commit, or one line that says why there is none."""

    commit: Commit | None
    words: str = ""
    code: int = 0


def by_git_am(world: World, folder: Path, patch: Path) -> Outcome:
    """What ``git am`` makes of a patch on upstream's tree."""
    git(folder.parent, "clone", "-q", "--shared", str(world.upstream), str(folder))
    env = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("GIT_AUTHOR")} | {"TZ": "UTC"}
    command = ["git", "am", "-q", "--keep-non-patch", str(patch)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, errors="replace", check=False)
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


def by_us(world: World, patch: Path) -> Outcome:
    """What import and push make of a patch on the tree of ``world``."""
    for command in (["import", RELEASE, str(patch), "-P", f"0001-{patch.name}"], ["push", RELEASE]):
        done = run(world, *command)
        if done.code:
            return done
    return Outcome(Commit.at(world.source, "HEAD^"))  # HEAD is the overlay


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("received"), FILES)
    world.create()
    return world


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.patch"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("kind", TAKEN)
def test_what_git_am_takes_gives_the_same_tree_and_commit(template: World, tmp_path: Path, kind: str) -> None:
    patch = written(tmp_path, kind, TAKEN[kind])
    theirs = by_git_am(template, tmp_path / "am", patch)
    ours = by_us(template.copy_to(tmp_path / "us"), patch)
    assert theirs.commit and not theirs.words
    assert ours == theirs


@pytest.mark.parametrize("kind", DESCRIBED)
def test_what_is_no_mail_has_a_sensible_author_and_title(template: World, tmp_path: Path, kind: str) -> None:
    head, expected = DESCRIBED[kind]
    patch = written(tmp_path, kind, (head if isinstance(head, bytes) else head.encode()) + DIFF.encode())
    assert by_git_am(template, tmp_path / "am", patch).code
    commit = by_us(template.copy_to(tmp_path / "us"), patch).commit
    assert commit
    assert (f"{commit.name} <{commit.address}>", commit.date, commit.message.split("\n")[0]) == expected


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_a_patch_of_a_series_is_refused_in_a_line(template: World, tmp_path: Path, kind: str) -> None:
    text, next_step = REFUSED[kind]
    patch = written(tmp_path, kind, text)
    done = by_us(template.copy_to(tmp_path / "us"), patch)
    why, what, *more = done.words.split("\n")
    assert (done.code, more) == (1, []) and patch.stem in why
    assert next_step in what


def test_the_command_that_mends_a_mail_can_be_typed_wherever_the_mail_lies(template: World, tmp_path: Path) -> None:
    (tmp_path / "my mails").mkdir()
    patch = written(tmp_path / "my mails", "lines", REFUSED["a new file in CR LF"][0])
    done = by_us(template.copy_to(tmp_path / "us"), patch)
    assert f"sed -i 's/\\r$//' '{patch}'; or" in done.words


#: A title and its text are parted by an empty line once they are written anew.
KEPT = [kind for kind in (*TAKEN, *DESCRIBED) if kind != "no title, and lines"]


@pytest.mark.parametrize("kind", KEPT)
def test_a_header_survives_an_amended_commit(template: World, tmp_path: Path, kind: str) -> None:
    """Import and export change no byte; another body changes the body; another title and author change those."""
    head = TAKEN[kind] if kind in TAKEN else DESCRIBED[kind][0]
    text = head if isinstance(head, bytes) else head.encode()
    patch = written(tmp_path, kind, text if kind in TAKEN else text + DIFF.encode())
    world = template.copy_to(tmp_path / "us")
    assert by_us(world, patch).commit
    stored = world.project / "patches" / RELEASE / f"0001-{patch.name}"
    before = stored.read_bytes()
    carried = kind.startswith(("quoted-printable", "base64", "all of it in CR LF"))
    assert (before == patch.read_bytes()) != carried, "those are taken out of what carried them"
    with Stack.open(world.places) as stack:
        assert not edits.refresh_patches(stack).written.files
        stack.pop(None)
        stack.push(None, overlay=False)
    plain = Commit.at(world.source)
    name = f"Decouple-Patch: {RELEASE}/0001-{patch.name}"
    for message, author in (
        (f"{plain.message}\n\nMore to say.\n\n{name}", f"{plain.name} <{plain.address}>"),
        (
            f"another title\n\nAnother text, é.\n\nReviewed-by: B <b@example.org>\n{name}",
            'Zoë, "Z" Doe <z@example.org>',
        ),
    ):
        git(world.source, "commit", "-q", "--amend", "--author", author, "-m", message)
        amended = Commit.at(world.source)
        with Stack.open(world.places) as stack:
            edits.refresh_patches(stack)
            assert Commit.at(world.source) == amended
            stack.pop(None)
            stack.push(None, overlay=False)
        assert Commit.at(world.source) == amended, stored.read_text(errors="replace")
        assert before[before.index(b"diff --git") :] in stored.read_bytes(), "the diff is the same, to the byte"


def test_a_folded_subject_stays_whole_when_the_text_is_amended(template: World, tmp_path: Path) -> None:
    world = template.copy_to(tmp_path / "us")
    assert by_us(world, written(tmp_path, "folded", TAKEN["folded subject"])).commit
    with Stack.open(world.places) as stack:
        stack.pop(None)
        stack.push(None, overlay=False)
        message = git(world.source, "log", "-1", "--format=%B").replace("caller", "reader")
        git(world.source, "commit", "-q", "--amend", "-m", message)
        edits.refresh_patches(stack)
    text = (world.project / "patches" / RELEASE / "0001-folded.patch").read_text()
    assert text == str(TAKEN["folded subject"]).replace("caller", "reader")


def test_a_patch_for_a_file_that_the_series_moved_is_told_where_it_is(world: World, tmp_path: Path) -> None:
    section = "diff --git a/aten/cuda/Gemm.cu b/aten/cuda/Gemm.cu\n--- a/aten/cuda/Gemm.cu\n+++ b/aten/cuda/Gemm.cu\n"
    patch = written(tmp_path, "old place", FROM + SUBJECT + BODY + section + "@@ -1 +1 @@\n-// gemm\n+// GEMM\n")
    assert run(world, "push", "-a", RELEASE).code == 0
    assert run(world, "import", RELEASE, str(patch), "-P", "0004-old.patch").code == 0
    for verb in ("push", "fold"):
        done = run(world, verb, RELEASE, *([str(patch)] if verb == "fold" else []))
        assert done.code == 1 and "third_device/torch_cuda/csrc/Gemm.cu" in done.words, done.words
        assert "2.6/0001-relocate.patch moved it" in done.words
    with Stack.open(world.places) as stack:
        series = [stack.read_patch(name) for name in stack.series.names]
    last = check_series(series, Reader({name: text.encode() for name, text in UPSTREAM.items()}.get))[-1]
    assert "third_device/torch_cuda/csrc/Gemm.cu" in last.conflicts[0].failure.message


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64"])
def test_an_encoded_mail_below_a_maintainers_fields_is_decoded(template: World, tmp_path: Path, encoding: str) -> None:
    """As the mail alone, with the fields above it."""
    data = ENVELOPE.encode() + encoded(encoding)
    alone = by_git_am(template, tmp_path / "am", written(tmp_path, "mail", data))
    patch = written(tmp_path, "debian", b"Origin: upstream, https://example.org/1\n\n" + data)
    commit = by_us(template.copy_to(tmp_path / "us"), patch).commit
    assert alone.commit and commit
    assert (commit.tree, commit.name, commit.address, commit.date) == (
        *(alone.commit.tree, alone.commit.name, alone.commit.address, alone.commit.date),
    )
    assert commit.message.startswith("f5 takes an argument\n\nThe caller knows it.\n")
    assert "Origin: upstream, https://example.org/1" in commit.message
