"""docs/architecture.md is true: the drawing is that of the imports, and a new line goes where the page says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.base.files import replace_between
from decouple.base.paths import find_project
from decouple.census import taxonomy
from decouple.census.context import make_context
from decouple.census.scan import scan
from decouple.inventory.rules import load as load_rules
from decouple.release.manifest import Manifest
from decouple.upstream import fetching
from decouple.upstream.fetched import Fetched
from decouple.upstream.providers.context import Context
from floor_plan import BEGIN, END, PACKAGE, PAGE, plan
from tests.support.releases import manifest

PROJECT = find_project()


def test_the_drawing_is_that_of_the_imports() -> None:
    assert not replace_between(PROJECT / PAGE, BEGIN, END, plan(), write=False), "python scripts/floor_plan.py"


def test_every_place_that_the_page_names_is_there() -> None:
    page = (PROJECT / PAGE).read_text(encoding="utf-8")
    table = page.partition("## Where a new line goes")[2]
    named = [name for name in re.findall(r"`([a-z_0-9/-]+(?:\.py|\.toml|/))`", table) if "NAME" not in name]
    assert len(named) > 10
    assert [name for name in named if not (PACKAGE / name).exists() and not (PROJECT / name).exists()] == []


def test_a_made_up_macro_is_one_name_in_one_file(tmp_path: Path) -> None:
    tree = tmp_path / "pytorch"
    (tree / "torch").mkdir(parents=True)
    (tree / "build_variables.bzl").write_text("libtorch_cmake_sources = ['torch/a.cpp']\n")
    (tree / "torch/a.cpp").write_text("#ifdef USE_CUDA_MADEUP\nint a;\n#endif\n")
    words = tmp_path / "taxonomy.toml"
    before = taxonomy.DEFAULT.read_text(encoding="utf-8")

    def found() -> set[str]:
        rules = load_rules()
        context = make_context(tree, rules, {}, {"torch/a.cpp": None})
        counted = scan(context, taxonomy.load(words, undefined=rules.stage1.undefined), jobs=1)
        return {finding.symbol for finding in counted.findings if finding.category == "macro"}

    words.write_text(before, encoding="utf-8")
    assert found() == set()
    words.write_text(before.replace('names = [\n    "USE_CUDA",', 'names = [\n    "USE_CUDA_MADEUP", "USE_CUDA",', 1))
    assert found() == {"USE_CUDA_MADEUP"}


@dataclass(frozen=True)
class MadeUpSource:
    """What a manifest says of it."""

    folder: str
    provider: str = "madeup"


class MadeUp:
    """A provider: the two functions of a module in ``upstream/providers``."""

    def cached(self, manifest: Manifest, source: MadeUpSource, context: Context) -> Fetched | None:
        return None

    def fetch(self, manifest: Manifest, source: MadeUpSource, context: Context) -> Fetched:
        return Fetched("madeup", "source", Path(source.folder), "madeup-1", ())


def test_a_made_up_provider_is_one_module_and_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetching.PROVIDERS, "madeup", MadeUp())
    release = manifest(MadeUpSource(str(tmp_path)))  # type: ignore[arg-type]
    for word in ("madeup", "auto"):
        fetched = fetching.fetch(release, word, cache=tmp_path / "cache", offline=True)
        assert (fetched.provider, fetched.path) == ("madeup", tmp_path)
