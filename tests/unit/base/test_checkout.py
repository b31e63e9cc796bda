"""The checkout as an object: which releases it has, in which order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import decouple
from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "series"
    (folder / "resolutions").mkdir(parents=True)
    (tmp_path / "patches").mkdir()
    for name in ("2.6", "2.10", "2.9", "2.6~", "2.6.orig", ".2.7.swp", "notes"):
        (folder / name).write_text("# a comment\n")
    return Checkout(tmp_path)


def test_releases_are_sorted_by_version_and_editors_leave_none(checkout: Checkout) -> None:
    # "2.6~" counted as a release for `decouple status`, and 2.10 stood before 2.6
    assert checkout.list_releases() == ("2.6", "2.9", "2.10")
    assert checkout.find_newest_release() == "2.10"


def test_what_has_no_source_is_never_the_newest(checkout: Checkout) -> None:
    (checkout.root / "series/2.10.toml").write_text("schema = 1\n")
    assert checkout.list_releases() == ("2.10", "2.6", "2.9")
    assert checkout.find_newest_release() == "2.9"


def test_without_a_series_there_is_no_newest(tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    with pytest.raises(UsageError, match="no series"):
        Checkout(tmp_path).find_newest_release()


def test_places(checkout: Checkout) -> None:
    places = checkout.find_series("2.10")
    assert places.tree == checkout.root / "build/2.10/src"
    with pytest.raises(UsageError, match=r"series/2\.7.*2\.6, 2\.9"):
        checkout.find_series("2.7")


def test_a_version_is_shortened_to_its_release(checkout: Checkout) -> None:
    for name in ("2.6", "2.9", "2.9.1", "2.7.0rc3"):
        (checkout.root / f"series/{name}.toml").touch()
    words = ("2.6.0", "2.9.0", "2.9.1", "2.7.0rc3", "2.10.0", "2.6", "main")
    assert [checkout.shorten_version(word) for word in words] == ["2.6", "2.9", *words[2:]]


def test_it_needs_nothing_that_is_not_pythons_own(checkout: Checkout) -> None:
    """``noxfile.py`` asks it which sessions there are, before anything is installed."""
    package = Path(decouple.__file__).parent.parent
    say = f"import sys; sys.path.insert(0, {str(package)!r}); from decouple.base.checkout import Checkout; "
    say += f"from pathlib import Path; print(*Checkout(Path({str(checkout.root)!r})).list_releases())"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", say], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.6", "2.9", "2.10"]
