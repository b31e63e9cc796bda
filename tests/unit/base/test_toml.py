"""What is written as TOML is read back as it was."""

from __future__ import annotations

import tomllib

from decouple.base.toml import format_string


def test_a_string_of_any_characters_reads_back() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), *range(0x1F600, 0x1F700)]))
    assert tomllib.loads(f"key = {format_string(text)}\n") == {"key": text}
