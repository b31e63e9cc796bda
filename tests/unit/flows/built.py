"""A checkout whose wheels were built, as far as a flow looks at them."""

from __future__ import annotations

from pathlib import Path

from decouple.base.files import compute_sha256
from decouple.base.paths import find_project
from decouple.build import inputs
from decouple.build.environment import Places


def link_manifest(project: Path) -> None:
    """Let the checkout have the manifest of 2.6."""
    (project / "series").mkdir(parents=True)
    (project / "series/2.6.toml").symlink_to(find_project() / "series/2.6.toml")


def put_built(places: Places, *wheels: str) -> None:
    """Leave the wheels, that of stage 1 first, as a build does, with the record of each."""
    places.dist.mkdir(parents=True)
    for stage, name in enumerate(wheels, 1):
        (places.dist / name).write_text("what was built")
        stamp = inputs.Stamp("0" * 64, name, compute_sha256(places.dist / name), 1.0, 1)
        for folder in {places.core_state, places.state}:
            inputs.write_stamp(folder / f"stage{stage}.json", stamp)
