"""``scripts/compare_received.py``: the row of a patch says who takes it, and a difference ends with exit code 1."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

import compare_received
from tests.support.received import Outcome, by_us
from tests.support.series import World

MAIL = """From: A Person <a@example.org>
Date: Tue, 1 Jul 2025 10:00:00 +0200
Subject: [PATCH] Say it otherwise

A reason.
---
"""
DIFF = "--- a/tab.mk\n+++ b/tab.mk\n@@ -1,3 +1,3 @@\n all:\n-\techo 1\n+\techo one\n \techo 2\n"
PATCHES = {
    "a-mail": MAIL + DIFF,
    "b-without-prefixes": MAIL + DIFF.replace("a/tab", "tab").replace("b/tab", "tab"),
    "c-without-author": DIFF,
    "e-elsewhere": MAIL + DIFF.replace("echo 1", "echo 7"),
    "f-two-mails": MAIL + DIFF + "-- \n2.47\n\n" + "From 1 Mon Sep 17 00:00:00 2001\n" + MAIL + DIFF,
}


def compare(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and what the table says of each patch."""
    monkeypatch.setattr(sys, "argv", ["compare_received.py", str(folder)])
    code = compare_received.main()
    return code, [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()[:-1]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PATCHES.items():
        (tmp_path / f"{name}.patch").write_text(text)
    return tmp_path


def test_each_patch_has_a_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rows = compare(folder, monkeypatch, capsys)
    assert dict(zip(PATCHES, rows, strict=True)) == {
        "a-mail": "equal",
        "b-without-prefixes": "equal with -p0",
        "c-without-author": "only we",
        "e-elsewhere": "both refuse",
        "f-two-mails": "both refuse",
    }
    assert code == 0


def test_another_author_than_git_ams_is_a_difference(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forge(world: World, *patches: Path, strip: int = 1) -> Outcome:
        done = by_us(world, *patches, strip=strip)
        return dataclasses.replace(done, commit=done.commit and dataclasses.replace(done.commit, name="Somebody"))

    monkeypatch.setattr(compare_received, "by_us", forge)
    code, rows = compare(folder, monkeypatch, capsys)
    assert (code, rows[0]) == (1, "differs")
