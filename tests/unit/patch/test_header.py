"""DEP-3 headers: fields wherever they stand, folding, and not one byte lost."""

from __future__ import annotations

import pytest

from decouple.patch import header

MAIL = """\
From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: Jane Doe <jane@example.org>
Date: Fri, 21 Nov 2025 07:00:00 +0000
Subject: [PATCH 3/5] Storage: ask the hooks
 for the allocator

The constructor named the allocator. Note: this line
Looks: like a field in the middle of a paragraph.

Origin: vendor
Decouple-Id: storage-hooks
Depends: relocate, hooks
Verify: pytest -k storage
---
 torch/csrc/Storage.cpp | 3 +--
Origin: not a field, this is behind the line
"""

DEP3 = """\
Description: Move CUDA
 The long text
 .
  with an indented line
Author: Jane Doe <jane@example.org>
Bug-Debian: https://bugs.debian.org/1
Last-Update: 2026-11-21

"""


@pytest.mark.parametrize(
    "text", [MAIL, DEP3, "", "\n", "free text\nonly\n", "A:", "Origin: x", "---\n", MAIL.replace("\n", "\r\n")]
)
def test_reading_and_writing_gives_the_same_text(text: str) -> None:
    assert header.parse_header(text).to_text() == text


def test_a_mail_header_with_fields_behind_its_text() -> None:
    read = header.parse_header(MAIL)
    assert read.synopsis == "Storage: ask the hooks for the allocator"
    assert read.author == "Jane Doe <jane@example.org>"
    assert read.decouple_id == "storage-hooks"
    assert read.depends == {"relocate", "hooks"}
    assert read.get("Origin") == "vendor"
    assert read.get("Looks") is None, "a word with a colon inside free text is no field"
    assert [field.line for field in read.fields if field.name == "Decouple-Id"] == [11]


def test_a_dep3_header_unfolds() -> None:
    read = header.parse_header(DEP3)
    assert read.synopsis == "Move CUDA"
    assert read.get("description") == "Move CUDA\nThe long text\n\n with an indented line"
    assert read.get("Bug-Debian") == "https://bugs.debian.org/1"


def test_folding_is_unfolding_backwards() -> None:
    value = "First\nsecond\n\nfourth, behind an empty line"
    assert header.parse_header(header.fold_field("Description", value)).get("Description") == value


def test_a_field_is_changed_in_place_and_a_new_one_finds_its_own() -> None:
    changed = header.parse_header(DEP3).with_field("Last-Update", "2026-12-01")
    assert changed.to_text() == DEP3.replace("2026-11-21", "2026-12-01")
    more = changed.with_field("Decouple-Id", "move-cuda")
    assert more.to_text().index("Last-Update") < more.to_text().index("Decouple-Id: move-cuda\n\n")
    assert more.without_field("Decouple-Id").to_text() == changed.to_text()
    assert header.parse_header("").with_field("Origin", "vendor").to_text() == "Origin: vendor\n"
    assert (
        header.parse_header("free text\n").with_field("Origin", "vendor").to_text() == "Origin: vendor\n\nfree text\n"
    )
    in_mail = header.parse_header(MAIL).with_field("Last-Update", "2026-11-21")
    assert in_mail.get("Last-Update") == "2026-11-21"
    assert "vendor\nLast-Update" in in_mail.to_text()
