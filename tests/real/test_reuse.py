"""What the relocated files of 2.6.0 ask of a vendor on the CUDA key: the figures of docs/backends.md, counted again."""

from __future__ import annotations

import pytest

from decouple.base.paths import find_project
from decouple.device import reuse
from decouple.inventory import rules as rule_files
from decouple.relocate.plan import make_plan
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

pytestmark = pytest.mark.real


def test_the_figures_of_the_guide() -> None:
    """Only those that do not depend on which toolkit's headers are at hand."""
    tree = fetch_source(load_release(find_project(), "2.6"), "debian").path
    report = reuse.count_names(tree, make_plan(tree, rule_files.load_rules()).mapping, reuse.load_families())
    kinds = report.count_by_kind()
    assert len(report.files) == sum(files for files, _ in kinds.values()) == 744
    guide = (find_project() / "docs" / "backends.md").read_text(encoding="utf-8")
    for kind in ("device", "hand"):
        files, lines = kinds[kind]
        assert f"| {files} | {lines:,} |" in guide, (kind, files, lines)
    hand = [path for path, (kind, _) in report.files.items() if kind == "hand"]
    attention = [path for path in hand if "/transformers/" in path]
    assert f"{len(attention)} files are flash and memory-efficient attention" in guide
    assert f"\n{len(hand) - len(attention)} are not:" in guide
    names = {family.name: report.uses[family.name] for family in report.families.families}
    assert names["runtime"]["cudaGetLastError"] > 50 and names["cuSOLVER"]["cusolverDnSgetrf"]
    assert names["PyTorch's CUDA names"]["C10_CUDA_KERNEL_LAUNCH_CHECK"] > 300
    assert report.headers["cuda_runtime.h"] and "cudaMalloc" in report.count_library_names()
