"""The generated part of a stand-in."""

from __future__ import annotations

import pytest

from simcuda import tables, vendor
from simcuda.declarations import Function, Parameter
from simcuda.generate import generate_sources
from simcuda.library import FillRule, Library, load_libraries

ACME = Library("acme", "libacme.so.1", "", ("acme.h",), (), not_supported=15, success=("acmeGemm",), needs=())
HANDLE, SIZE = Parameter("acmeHandle_t", "handle"), Parameter("size_t *", "size")
DECLARED = {
    "acmeGemm": Function("acmeGemm", "acmeStatus_t", (HANDLE, SIZE)),
    "acmeSolve": Function("acmeSolve", "acmeStatus_t", (HANDLE,)),
}
FILL = (FillRule(".*", "size_t", ".*", "512"),)


def test_a_recorded_function_answers_success_and_fills_what_it_must() -> None:
    text = generate_sources(ACME, DECLARED, ["acmeGemm"], FILL)["declared.cpp"]
    assert 'simlib::Call call("acmeGemm"); call << handle; call << size; simlib::put(size, 512);' in text
    assert "return simlib::answer<acmeStatus_t>(0);" in text


def test_how_it_went_is_written_for_each_matrix_of_a_batch() -> None:
    info, batch = Parameter("int *", "infoArray"), Parameter("int", "batchSize")
    declared = {"acmeGemm": Function("acmeGemm", "acmeStatus_t", (HANDLE, info, batch))}
    well = (FillRule("acme.*", "int", r"\w*[Ii]nfo\w*", "simlib::went_well", "batch(Size|Count)"),)
    assert (
        "simlib::went_well(infoArray, batchSize);"
        in generate_sources(ACME, declared, ["acmeGemm"], well)["declared.cpp"]
    )
    declared["acmeGemm"] = Function("acmeGemm", "acmeStatus_t", (HANDLE, info))
    assert "simlib::went_well(infoArray);" in generate_sources(ACME, declared, ["acmeGemm"], well)["declared.cpp"]


def test_every_other_one_says_not_supported_and_names_itself() -> None:
    text = generate_sources(ACME, DECLARED, ["acmeSolve", "acmeInternal"], FILL)
    assert 'simcuda_not_supported("acmeSolve"); return simlib::answer<acmeStatus_t>(15);' in text["declared.cpp"]
    assert 'int acmeInternal(void) { simcuda_not_supported("acmeInternal"); return 15; }' in text["undeclared.cpp"]


@pytest.mark.parametrize(("version", "lacks"), [("12.4", set()), ("11.8", {"cusparseLt"})])
def test_the_real_table_names_every_library_once_and_after_those_it_needs(version: str, lacks: set[str]) -> None:
    table = tables.read_table(vendor.TABLE)
    sonames = table["cuda"][version]["soname"]
    libraries, fills = load_libraries(sonames)
    seen: set[str] = set()
    for library in libraries:
        assert library.soname not in seen and set(library.needs) <= seen, library.soname
        seen.add(library.soname)
        assert set(library.header_wheels) <= table["cuda"][version]["wheels"].keys() & table["folder"].keys()
    assert sonames.keys() | lacks | {"threads", "cuda", "nvml"} == {one.name for one in libraries} | lacks
    assert fills


def test_nothing_of_nvidia_is_committed() -> None:
    from simcuda.library import HERE

    files = [path for path in HERE.rglob("*") if path.suffix in {".h", ".cpp", ".so"}]
    assert files and not [path for path in files if "NVIDIA Corporation" in path.read_text(encoding="utf-8")]
