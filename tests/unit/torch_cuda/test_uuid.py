"""A GPU's UUID as text, where the core does not export the function that upstream's bindings call."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project

OURS = find_project() / "third_device/torch_cuda/torch_cuda/csrc/pybinding/registrations/uuid.cpp"
DECLARED = "#include <string>\nstd::string uuid_to_string(const char* uuid_bytes);\n"
ASKED = (
    DECLARED
    + r"""
#include <cstdio>
int main() {
  const char bytes[] = "\x00\x01\x0f\x10\xab\xcd\xef\xff\x80\x7f\x20\x30\x40\x50\x60\x70";
  std::puts(uuid_to_string(bytes).c_str());
}
"""
)

pytestmark = pytest.mark.tools("c++")


def say(folder: Path, *more: str) -> str:
    """What a program prints that is linked with ours and with ``more``."""
    for number, text in enumerate((ASKED, *more)):
        (folder / f"{number}.cpp").write_text(text)
    program = folder / "ask"
    subprocess.run(["c++", "-std=c++17", *folder.glob("*.cpp"), OURS, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


def test_sixteen_bytes_are_five_groups_of_digits(tmp_path: Path) -> None:
    assert say(tmp_path) == "00010f10-abcd-efff-807f-203040506070"


def test_upstreams_own_is_called_where_it_is_there(tmp_path: Path) -> None:
    """Up to 2.8 it is in the bindings themselves."""
    assert say(tmp_path, DECLARED + 'std::string uuid_to_string(const char*) { return "theirs"; }\n') == "theirs"
