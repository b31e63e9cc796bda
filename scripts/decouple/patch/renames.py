"""Find where patches moved a file, for a patch that knows only its old place."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from decouple.patch.parse import Patch


class NewPlace(Struct, frozen=True):
    """The place of a file that a patch moved."""

    path: str
    """Where it is."""
    patch: str
    """The patch that moved it last."""

    def __str__(self) -> str:
        return f"{self.patch} moved it to {self.path}"


def find_renames(patches: Iterable[Patch]) -> dict[str, NewPlace]:
    """Find every path that ``patches`` moved away and left free: where its file is.

    The patches are in order.
    """
    places: dict[str, NewPlace] = {}
    for patch in patches:
        for file in patch.files:
            if file.rename and file.old_path and file.new_path:
                place = NewPlace(file.new_path, patch.name)
                places.update({path: place for path, moved in places.items() if moved.path == file.old_path})
                places[file.old_path] = place
            if file.new_path:
                places.pop(file.new_path, None)
    return places
