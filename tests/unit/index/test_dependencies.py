"""An index that is enough on its own: pages that link what our wheels need from elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.cli import main
from decouple.index import dependencies, site
from decouple.index.check import check_index
from decouple.index.remote import Index
from tests.support.server import serving
from tests.unit.index.test_site import snapshot
from tests.unit.index.wheels import make_pair, make_wheel


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[list[str]]:
    """Another index with what torch needs, as pip options."""
    other = tmp_path / "other"
    make_wheel(other, "mpmath", "1.3.0")
    make_wheel(other, "sympy", "1.13.1", requires=("mpmath>=1.1",), requires_python=">=3.8")
    site.build_site(other, tmp_path / "elsewhere")
    with serving(tmp_path / "elsewhere") as url:
        yield ["--isolated", "--index-url", f"{url}/simple/"]


def test_requirements_leave_out_our_own_and_extras() -> None:
    metadata = [("torch==2.6.0+decoupled.1", "sympy==1.13.1"), ("sympy==1.13.1", 'optree>=0.13; extra == "optree"')]
    assert dependencies.collect_requirements(metadata, {"torch", "torch-cuda"}) == ["sympy==1.13.1"]


def test_markers_are_settled_for_the_python_of_the_wheel() -> None:
    metadata = [('setuptools; python_version >= "3.12"', 'old; python_version < "3.12"')]
    assert dependencies.collect_requirements(metadata, (), "3.13") == ["setuptools"]
    assert dependencies.collect_requirements(metadata, (), "3.11") == ["old"]


def test_pip_may_be_configured_to_install_for_the_user(
    elsewhere: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip takes no --target then; that was told as an index without the files."""
    (tmp_path / "pip.conf").write_text("[install]\nuser = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    options = [option for option in elsewhere if option != "--isolated"]
    found = dependencies.resolve_requirements(["sympy==1.13.1"], "3.13", options)
    assert len(found) == 2


def test_files_are_those_for_the_python_of_the_wheel(tmp_path: Path) -> None:
    """The publisher's own Python is another one than the wheels'."""
    for tag in ("cp310-cp310-linux_x86_64", "cp39-cp39-linux_x86_64"):
        make_wheel(tmp_path / "other", "markupsafe", "3.0", tag=tag)
    make_wheel(
        tmp_path / "dist", "torch", "2.6.0+decoupled.1", requires=("markupsafe",), tag="cp310-cp310-linux_x86_64"
    )
    site.build_site(tmp_path / "other", tmp_path / "elsewhere")
    with serving(tmp_path / "elsewhere") as url:
        site.build_site(
            tmp_path / "dist",
            tmp_path / "site",
            resolve=lambda wanted, python: dependencies.resolve_requirements(
                wanted, python, ["--isolated", "--index-url", f"{url}/simple/"]
            ),
        )
    (package,) = Index(str(tmp_path / "site")).read_project_json("markupsafe").offers
    assert package.filename == "markupsafe-3.0-cp310-cp310-linux_x86_64.whl"


def test_the_whole_closure_is_linked_with_its_hashes(tmp_path: Path, elsewhere: list[str]) -> None:
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", requires=("sympy==1.13.1",))
    root = tmp_path / "site"
    site.build_site(
        tmp_path / "dist",
        root,
        resolve=lambda wanted, python: dependencies.resolve_requirements(wanted, python, elsewhere),
    )
    index = Index(str(root))
    assert index.list_projects() == ("mpmath", "sympy", "torch")
    (package,) = index.read_project_json("sympy").offers
    assert package.url.endswith("/sympy-1.13.1-py3-none-any.whl")
    assert package.sha256
    assert package.requires_python == ">=3.8"
    assert check_index(index) == []


def test_a_page_of_ours_never_links_elsewhere(tmp_path: Path) -> None:
    make_pair(tmp_path / "dist")
    evil = dependencies.LinkedFile(
        "torch", "9.9", "torch-9.9-py3-none-any.whl", "https://example.org/torch.whl", "a" * 64
    )
    site.build_site(tmp_path / "dist", tmp_path / "site", resolve=lambda wanted, python: [evil])
    assert len(Index(str(tmp_path / "site")).read_project_json("torch").offers) == 1


def test_a_file_that_only_this_machine_has_is_not_linked(tmp_path: Path) -> None:
    make_wheel(tmp_path / "other", "mpmath", "1.3.0")
    with pytest.raises(DecoupleError, match="only this machine has it"):
        dependencies.resolve_requirements(
            ["mpmath"], None, ["--isolated", "--no-index", "--find-links", str(tmp_path / "other")]
        )


def test_pip_asks_its_index_when_told_so_although_it_is_configured_for_a_folder(
    tmp_path: Path, elsewhere: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice for that folder's files let pip find none at all."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for word in dependencies.PYPI_ALONE.split():
        monkeypatch.setenv(*word.split("="))
    monkeypatch.setenv("PIP_INDEX_URL", elsewhere[-1])  # in place of PyPI
    (link,) = dependencies.resolve_requirements(["mpmath"])
    assert link.url.startswith(elsewhere[-1].removesuffix("simple/"))


def test_what_pip_cannot_find_is_named(elsewhere: list[str]) -> None:
    with pytest.raises(DecoupleError, match="no-such-thing"):
        dependencies.resolve_requirements(["no-such-thing==1"], None, elsewhere)


def test_a_site_stays_as_it_was_when_its_dependencies_cannot_be_found(tmp_path: Path, elsewhere: list[str]) -> None:
    """A later `index yank` made pages of the half that was written."""
    root = tmp_path / "site"
    make_pair(tmp_path / "dist")
    site.build_site(tmp_path / "dist", root)
    before = snapshot(root)
    make_wheel(tmp_path / "newer", "torch", "2.7.1+decoupled.1", requires=("no-such-thing==1",))
    with pytest.raises(DecoupleError, match="no-such-thing"):
        site.build_site(
            tmp_path / "newer",
            root,
            resolve=lambda wanted, python: dependencies.resolve_requirements(wanted, python, elsewhere),
        )
    assert snapshot(root) == before


def test_the_hosts_that_are_linked_are_named_and_a_mirror_is_warned_of(
    tmp_path: Path, elsewhere: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever installed from the index was sent to the publisher's mirror, which only the publisher sees."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", elsewhere[-1])
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", requires=("sympy==1.13.1",))
    build = ["index", "build", str(tmp_path / "dist"), "--site", str(tmp_path / "site"), "--dependencies"]
    assert main(build) == 0
    said, host = capsys.readouterr(), elsewhere[-1].split("/")[2]
    assert f"linked   2 files of {host}\n" in said.out
    assert f"WARNING: {host}: " in said.err and "PIP_INDEX_URL= PIP_EXTRA_INDEX_URL= " in said.err

    links = dependencies.read_links(tmp_path / "site")
    public = [replace(link, url=f"https://files.pythonhosted.org/{link.filename}") for link in links]
    site.build_site(tmp_path / "dist", tmp_path / "site", resolve=lambda wanted, python: public)
    assert list(dependencies.read_links(tmp_path / "site")) == public, "the later link of a file replaces the earlier"
    make_wheel(tmp_path / "newer", "torch", "2.7.1+decoupled.1")
    assert main(["index", "build", str(tmp_path / "newer"), *build[3:]]) == 0
    said = capsys.readouterr()
    assert "linked   2 files of files.pythonhosted.org\n" in said.out and "WARNING" not in said.err


def test_links_of_a_mirror_that_nothing_replaces_are_named_with_the_way_to_take_them_out(
    tmp_path: Path, elsewhere: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mirror had another version than PyPI: its link stayed, and the advice was to ask PyPI, for ever."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", elsewhere[-1])
    root = tmp_path / "site"
    build = ["index", "build", str(tmp_path / "dist"), "--site", str(root), "--dependencies"]
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", requires=("mpmath",))
    assert main(build) == 0
    assert "dependencies.json" not in capsys.readouterr().err, "asking PyPI may replace it yet"

    name = "mpmath-1.4.0-py3-none-any.whl"
    public = dependencies.LinkedFile("mpmath", "1.4.0", name, f"https://files.pythonhosted.org/{name}", "a" * 64)
    site.build_site(tmp_path / "dist", root, resolve=lambda wanted, python: [public])
    make_wheel(tmp_path / "newer", "torch", "2.7.1+decoupled.1")
    build[2] = str(tmp_path / "newer")
    assert main(build) == 0
    said = capsys.readouterr().err
    assert f"mpmath-1.3.0-py3-none-any.whl of {elsewhere[-1].split('/')[2]}" in said
    assert f"take their rows out of {root / 'dependencies.json'}" in said and "PIP_INDEX_URL" not in said

    document = json.loads((root / "dependencies.json").read_bytes())
    document["files"] = [row for row in document["files"] if row["filename"] == name]
    (root / "dependencies.json").write_text(json.dumps(document))
    assert main(build) == 0
    assert "WARNING" not in capsys.readouterr().err
    assert [offer.filename for offer in Index(str(root)).read_project_json("mpmath").offers] == [name]
