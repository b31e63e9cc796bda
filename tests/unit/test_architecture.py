"""docs/architecture.md is true: the drawing is that of the imports, and a new line goes where the page says."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.files import replace_sections
from decouple.base.paths import find_project
from decouple.build import settings
from decouple.census import taxonomy
from decouple.census.context import make_context
from decouple.census.scan import scan_tree
from decouple.device import items
from decouple.inventory.rules import load_rules
from decouple.patch import faults
from decouple.patch import lint as patch_lint
from decouple.release import proofs, status, status_table
from decouple.release.manifest_toml import render_manifest
from decouple.series import lint as series_lint
from decouple.upstream import manifests
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifest_sources import open_source
from decouple.upstream.providers.table import PROVIDERS
from floor_plan import PACKAGE, PAGE, draw_plan
from tests.support import made_up_provider
from tests.support.releases import manifest, sample_tree

PROJECT = find_project()


def test_the_drawing_is_that_of_the_imports() -> None:
    assert not replace_sections(PROJECT / PAGE, {"plan": draw_plan()}, write=False), "python scripts/floor_plan.py"


def test_every_place_that_the_page_names_is_there() -> None:
    page = (PROJECT / PAGE).read_text(encoding="utf-8")
    places = page.partition("## Where a new line goes")[2]
    named = [name for name in re.findall(r"`([a-z_0-9/-]+(?:\.py|\.toml|/))`", places) if "NAME" not in name]
    assert len(named) > 10
    assert [name for name in named if not (PACKAGE / name).exists() and not (PROJECT / name).exists()] == []


def test_every_data_file_is_named_by_who_reads_it() -> None:
    """In a module or another data file, or, where its name has a release, in scripts/README.md."""
    package = PROJECT / PACKAGE
    files = [path for path in package.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts]
    texts = {path: path.read_text() for path in files if path.suffix in (".py", ".toml", ".cmake")}
    listed = re.findall(r"`(\S+/\S+\*\.\w+)`", (PROJECT / "scripts/README.md").read_text())
    for path in files:
        if path.suffix == ".py" or path.name == "py.typed" or any(path.match(pattern) for pattern in listed):
            continue
        assert any(path.name in text for other, text in texts.items() if other != path), path
    for pattern in listed:
        assert any(path.match(pattern) for path in files), pattern


def test_every_data_file_is_in_a_plain_install_too() -> None:
    """``pip install -e`` takes them from the checkout; without ``-e`` portable builds lacked their CMake files."""
    tools = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    package = PROJECT / PACKAGE
    packed = {path for pattern in tools["setuptools"]["package-data"]["decouple"] for path in package.glob(pattern)}
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert [path for path in files if path.suffix != ".py" and path not in packed] == []


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
        counted = scan_tree(context, taxonomy.load_taxonomy(words, undefined=rules.stage1.undefined), jobs=1)
        return {finding.symbol for finding in counted.findings if finding.category == "macro"}

    words.write_text(before, encoding="utf-8")
    assert found() == set()
    words.write_text(before.replace('names = [\n    "USE_CUDA",', 'names = [\n    "USE_CUDA_MADEUP", "USE_CUDA",', 1))
    assert found() == {"USE_CUDA_MADEUP"}


def test_a_made_up_provider_is_one_module_and_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "share", made_up_provider.PROVIDER)
    tree = sample_tree(tmp_path / "share")
    path = tmp_path / "2.6.toml"
    text = render_manifest(manifest(made_up_provider.ShareSource(str(tree))))
    path.write_text(text.replace("path = ", "paht = "), encoding="utf-8")
    with pytest.raises(DecoupleError, match=r"paht.*did you mean path"):
        manifests.load_manifest(path)

    path.write_text(text, encoding="utf-8")
    release = manifests.load_manifest(path)
    downloader = Downloader(tmp_path / "cache")
    opened, _ = open_source(release, "share", {"version.txt"}, downloader)
    assert opened.source.read("version.txt") == (tree / "version.txt").read_bytes()
    fetched = fetch_source(release, "auto", cache=tmp_path / "cache", downloader=downloader)
    assert (fetched.provider, fetched.why) == ("share", "the first of the manifest's sources that is in the cache")


def test_a_made_up_flag_of_a_build_is_a_line_under_its_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PACKAGE / "build/stages.toml").read_text(encoding="utf-8")
    (tmp_path / "stages.toml").write_text(
        text.replace("[stage1.environment]\n", '[stage1.environment]\nUSE_MADEUP = "1"\n')
    )
    monkeypatch.setattr(settings, "_FILE", tmp_path / "stages.toml")
    settings.read_facts.cache_clear()
    places = defaultdict(str)
    assert settings.make_variables(1, "host", places, {})["USE_MADEUP"] == "1"
    assert "USE_MADEUP" not in settings.make_variables(2, "host", places, {})
    settings.read_facts.cache_clear()


def test_a_made_up_proof_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [proofs.Figure("series", "yes", proofs.HOLDS)]
    proof = proofs.ProofKind("decouple made-up {release}", lambda release: seen, "not asked")
    monkeypatch.setitem(proofs.PROOFS, "made up", proof)  # type: ignore[arg-type]
    lines = status_table.tabulate_proofs({"2.6": status.ReleaseStatus()}).splitlines()
    assert "| 2.6 | made up | `decouple made-up 2.6` | not known | not known | yes | holds |" in lines


def test_a_rule_of_lint_has_its_code_and_its_check_in_one_file() -> None:
    """Every code is declared in the file that says it, or in ``patch/faults.py`` when reading a patch finds it."""
    shared = set(re.findall(r'^    "([a-z0-9-]+)": ', Path(faults.__file__).read_text(encoding="utf-8"), re.M))
    for module in (patch_lint, series_lint):
        text = Path(module.__file__).read_text(encoding="utf-8")
        said = set(re.findall(r'Fault\([^"]*?"([a-z0-9-]+)"', text))
        declared = set(re.findall(r'^        "([a-z0-9-]+)": ', text, re.M))
        assert said and said <= declared | shared and not declared & shared


def test_a_made_up_item_of_the_contract_is_a_row_that_a_test_is_marked_with(tmp_path: Path) -> None:
    package = tmp_path / items.PACKAGE
    shutil.copytree(PROJECT / items.PACKAGE, package)
    shutil.copytree(
        PROJECT / "tests/contract", tmp_path / "tests/contract", ignore=shutil.ignore_patterns("__pycache__")
    )
    with (package / "items.toml").open("a", encoding="utf-8") as file:
        file.write('[[item]]\nid = 999\ngroup = "Made up"\ntitle = "a made-up promise"\nwhere = "torch/a.py"\n')
    with pytest.raises(DecoupleError, match="item 999 has no test"):
        items.read_items(tmp_path)
    (package / "test_made_up.py").write_text(
        "import pytest\n\n\n@pytest.mark.contract_item(999)\ndef test_a_promise() -> None: ...\n", encoding="utf-8"
    )
    assert items.read_items(tmp_path)[-1].tests == ("test_made_up.py::test_a_promise",)
