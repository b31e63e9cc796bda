"""Faults planted in the loader: each is found by the check that is named for it, and by what that says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.torch_cuda import test_loader as checks
from tests.unit.torch_cuda.test_loader import needs_cc, site  # noqa: F401 - a fixture

EARLY = "        _core_preload().load_libraries()\n        return super().create_module(spec)\n"
LATE = "        module = super().create_module(spec)\n        _core_preload().load_libraries()\n        return module\n"

#: What is wrong -> file, its text, the faulty one, the check that finds it, and a part of what that says.
FAULTS: dict[str, tuple[str, str, str, Callable[[Path], None], str]] = {
    "libraries are opened after the core": (
        *("_autoload.py", EARLY, LATE),
        checks.test_libraries_come_before_the_core_and_bindings_right_after,
        "False True True",
    ),
    "bindings are not filled in": (
        *("_autoload.py", "        _core_preload().fill_bindings()\n", ""),
        checks.test_libraries_come_before_the_core_and_bindings_right_after,
        "True False False",
    ),
    "libraries are opened for their loader only": (
        *("_libraries.py", "RTLD_GLOBAL)", "RTLD_LOCAL)"),
        checks.test_libraries_come_before_the_core_and_bindings_right_after,
        "False True True",
    ),
    "the name of the RFC is not set": (
        *("_preload.py", '    before_body("torch.cuda", _set_alias)\n', ""),
        checks.test_bindings_are_reachable_under_the_name_of_the_rfc,
        "has no attribute '_CUDAC'",
    ),
    "any torch will do": (
        *("_preload.py", "    if found != wanted:\n", "    if False:\n"),
        checks.test_another_torch_is_refused_in_one_clear_sentence,
        "returncode",
    ),
    "a core that loads us is helped": (
        *("_autoload.py", "is_patched(Path(entry))", "False"),
        checks.test_a_patched_core_is_left_to_load_us_itself,
        "True",
    ),
    "nobody is told that it is the ABI": (
        *("_preload.py", "            check_abi(build_info(), folders[0].parent if folders else Path(), error)\n", ""),
        checks.test_a_torch_of_another_abi_is_refused_by_its_name,
        "of_the_other_abi",
    ),
    "extensions do not find our headers": (
        *("_preload.py", 'when_imported("torch.utils.cpp_extension", extend_paths)', "pass"),
        checks.test_extensions_for_cuda_look_into_this_package_too,
        "['core'] ['core']",
    ),
}


@needs_cc
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_check_that_is_named_for_it(site: Path, fault: str) -> None:  # noqa: F811
    file, right, wrong, check, said = FAULTS[fault]
    path = site / "torch_cuda" / file
    text = path.read_text()
    assert right in text, f"{file} has changed; plant this fault anew"
    path.write_text(text.replace(right, wrong))
    with pytest.raises(AssertionError) as found:
        check(site)
    assert said in str(found.value)
