"""Read and write upstream's files as text; bytes that are not UTF-8 are kept."""

from __future__ import annotations

from decouple.syntax.preprocessor import CPP_SUFFIXES

_KEPT = "surrogateescape"


def is_cpp(path: str) -> bool:
    """Say whether a file is of C, C++ or CUDA by its name."""
    return path.endswith(CPP_SUFFIXES)


def decode_text(data: bytes) -> str:
    """Return a file as text; ``encode_text`` gives the very same bytes again."""
    return data.decode("utf-8", _KEPT)


def encode_text(text: str) -> bytes:
    """Return the bytes of a text that ``decode_text`` returned, or that holds parts."""
    return text.encode("utf-8", _KEPT)


def make_readable(text: str) -> str:
    """Return a text of ``decode_text`` with a sign for what JSON cannot hold."""
    return encode_text(text).decode("utf-8", "replace")
