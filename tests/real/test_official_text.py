"""What the rules make of the official wheels' exact text: the patches that a person settled there, to the byte.

A wheel has Python files and headers. Five patches touch nothing else. What four of them become on each release was
settled and read by people once, and is kept as a hash: git keeps the text (patches/2.7 to patches/2.15, up to November
2026). The fifth, 0023, is younger: its recipe made it, and the text was read on 2.9, 2.10, 2.11 and 2.13 to 2.15.
0019 was widened to ROCm's branch since; what it then becomes was read on all nine.
"""

from __future__ import annotations

import hashlib
import re

import pytest
from packaging.version import Version

from decouple.base.paths import find_project
from decouple.flows import rebase
from decouple.patch.parse import Patch
from decouple.rebase.rebase_state import RebaseState
from decouple.rebase.tree_source import TreeSource
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.recipes.make import list_rule_releases

pytestmark = pytest.mark.real

SETTLED = {
    "2.7": {
        "0003": "9c17d8ad7017eae60aef3510",
        "0017": "563938d7457fcec046cc40c8",
        "0018": "0663558dacdce88832aa951c",
        "0019": "07bc256266316e9ee6d59f54",
        "0023": "d8317ccc26898391fd53fe57",
    },
    "2.8": {
        "0003": "96a6cf5ca8bcea73a695079f",
        "0017": "5786199f92c475c82f800d47",
        "0018": "1ea8ccf30c616e3ab3f58284",
        "0019": "11088f4b28c64681d89e7878",
        "0023": "4330b69ddee40adf5ea8b18e",
    },
    "2.9": {
        "0003": "9c17d8ad7017eae60aef3510",
        "0017": "3feed1f31e409b9eba430eb2",
        "0018": "a68984b402bbb92235f5b071",
        "0019": "42d774622e3e6b9d8d2a25ae",
        "0023": "58302906a2a437102c305b92",
    },
    "2.10": {
        "0003": "9c17d8ad7017eae60aef3510",
        "0017": "d6c6414459e5b0bd021edf3a",
        "0018": "81f29cd4671ecf1c9590c061",
        "0019": "fc8835205766f36cd0fc0b84",
        "0023": "0d82a650c2fdf525aeb3f37e",
    },
    "2.11": {
        "0003": "9c17d8ad7017eae60aef3510",
        "0017": "d6c6414459e5b0bd021edf3a",
        "0018": "7ebc0e979c27a703b32f2fe2",
        "0019": "1a1b07907311ca8f7dc0d0bd",
        "0023": "fc82bee2e85222573d24d2ef",
    },
    "2.12": {
        "0003": "44e31d986489bfb24f4c819d",
        "0017": "1a9a66b89519bc14557a283e",
        "0018": "c55d75c5c001e5a021bdf5a6",
        "0019": "903eafd0c0205286331e5b51",
        "0023": "fc82bee2e85222573d24d2ef",
    },
    "2.13": {
        "0003": "44e31d986489bfb24f4c819d",
        "0017": "b366dfa7b8963f41c177b20c",
        "0018": "01187cc3d7c1b393d65798d4",
        "0019": "422321591631841ce30ea370",
        "0023": "0b13295e56c256aec0e6e9ae",
    },
    "2.14": {
        "0003": "44e31d986489bfb24f4c819d",
        "0017": "b366dfa7b8963f41c177b20c",
        "0018": "c6968aaeefb61fc7973fdc54",
        "0019": "7c6d67e2e48adad66b734bcb",
        "0023": "0b13295e56c256aec0e6e9ae",
    },
    "2.15": {
        "0003": "44e31d986489bfb24f4c819d",
        "0017": "b366dfa7b8963f41c177b20c",
        "0018": "29cad05fe16f9ca3a875e209",
        "0019": "156bc8601b5efd632d7994fd",
        "0023": "0b13295e56c256aec0e6e9ae",
    },
}
"""Release -> number of the patch -> SHA-256 (its beginning) of the text below its header, without blob ids."""


def number_of(one: CarryResult) -> str:
    """``0003`` of ``2.6/0003-device-interface-cudac.patch``."""
    return one.name.removeprefix("2.6/")[:4]


def made(patch: Patch, one: CarryResult) -> str:
    """SHA-256 (its beginning) of the diff that became of ``patch``; blob ids tell of all the file, and are left out."""
    body = one.body if one.body is not None else patch.data.partition(b"\n---\n")[2]
    return hashlib.sha256(re.sub(rb"(?m)^index .*\n", b"", b"\n---\n" + body)).hexdigest()[:24]


@pytest.mark.parametrize("release", SETTLED)
def test_the_rules_make_what_people_settled(release: str) -> None:
    work, _, _ = rebase.prepare_work(find_project(), RebaseState("2.6", release, "wheel", debian_patches=False))
    found = work.run(stop=False)
    pairs = [(step.patch, one) for step, one in zip(found.steps, found.carried, strict=True)]
    ours = {number_of(one): made(patch, one) for patch, one in pairs if number_of(one) in SETTLED[release]}
    assert ours == SETTLED[release]
    source = TreeSource(work.repository, work.sides.new)
    for recipe in work.recipes.values():
        since = list_rule_releases(recipe, lambda path: source.read(path).decode() if source.mode(path) else None)
        assert all(Version(one) <= Version(release) for one in since), "a rule says when its text came, and it is there"
    others = {one.verdict for _, one in pairs if number_of(one) not in {"0001", *ours}}
    assert others <= {Verdict.NOT_SEEN, Verdict.ALREADY_UPSTREAM}, "a wheel shows no C++ source: nothing is claimed"
