"""Lines of code, counted on the same terms for every backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.cli import main
from decouple.device.size import count_code_lines, measure_files


def test_comments_blank_lines_and_docstrings_do_not_count() -> None:
    assert count_code_lines('// a\n\nint x;  // b\n/* c\n d */ int y;\nauto s = "// no comment";\n', "C++") == 3
    text = '"""Doc.\n\nMore."""\n\nX = """two\nlines"""\n\n\ndef f():\n    """Doc."""\n    # no\n    return 1\n'
    assert count_code_lines(text, "Python") == 4
    assert count_code_lines("print 'two'  # 1\n# no\n", "Python") == 1
    assert count_code_lines("# no\n\nkernels:\n  - mm.out  # yes\n", "data") == 2


def test_a_folder_is_counted_without_what_was_built(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "made.cpp").write_text("int x;\n")
    (tmp_path / "driver.cpp").write_text("int x;\n")
    (tmp_path / "README.md").write_text("text\n")
    assert [(size.path, size.lines) for size in measure_files(tmp_path)] == [("driver.cpp", 1)]
    with pytest.raises(DecoupleError, match="no source file"):
        measure_files(tmp_path / "README.md")


def test_what_a_vendor_writes_stays_small(capsys: pytest.CaptureFixture[str]) -> None:
    """A driver over a CUDA-like runtime, the operators and kernels of an MLP, packaging: issue 42 wants below 150."""
    home = find_project() / "third_device"
    examples = ("csrc/extensions.cpp", "torch_newdevice/functions.py")  # need not stay
    sizes = {size.path: size.lines for size in measure_files(home / "template")}
    replaced = ("csrc/driver.cpp",)  # by the driver that is counted
    backend = sum(lines for path, lines in sizes.items() if path not in examples + replaced)
    driver = sum(size.lines for size in measure_files(home / "examples" / "cuda_like_driver.cpp"))
    assert set(examples) < set(sizes)
    assert 0 < driver < 20 and 100 < backend + driver < 150
    assert main(["new-device", "--count", str(home / "template")]) == 0
    assert f"{sum(sizes.values()):7} lines" in capsys.readouterr().out


def test_the_guide_has_the_figures_of_the_tree() -> None:
    """The rows of docs/backends.md that are about this project, each counted anew."""
    root = find_project()
    home = root / "third_device"

    def lines(*places: str) -> int:
        return sum(size.lines for place in places for size in measure_files(home / place))

    written = ("torch_newdevice/__init__.py", "setup.py", "pyproject.toml", "CMakeLists.txt")
    simulated = ("layer/sim", "layer/include/third_device/sim_driver.h")
    driver, operators = lines("examples/cuda_like_driver.cpp"), lines("template/operators.yaml")
    kernels, packaging = lines("template/csrc/kernels.cpp"), lines(*(f"template/{path}" for path in written))
    expected = {
        "a driver over a CUDA-like runtime": driver,
        "**driver and YAML": driver + 1,
        "`operators.yaml` of the template": operators - 1,  # its `namespace:` is a row of its own
        "their kernels and gradient": kernels,
        "packaging that the scaffold writes": packaging,
        "examples of what a backend adds": lines(
            "template/csrc/extensions.cpp", "template/torch_newdevice/functions.py"
        ),
        "**together": driver + operators + kernels + packaging,
        "the layer that is shared": lines("layer") - lines(*simulated, "layer/tests"),
    }
    rows = [line for line in (root / "docs" / "backends.md").read_text().splitlines() if line.startswith("| ")]
    for label, count in expected.items():
        (row,) = [line for line in rows if line.startswith(f"| {label}")]
        said = row.split("|")[-2].replace(",", "").replace("more", "").strip(" *")
        assert said == str(count), f"{label}: the guide says {said}, the tree has {count}"


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="torch_acme: there is no such file or folder"):
        measure_files(tmp_path / "torch_acme")
