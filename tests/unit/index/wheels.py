"""Small real wheels, as ``decouple build`` would leave them: installable, with a build manifest and a true RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import zipfile
from pathlib import Path

from packaging.tags import parse_tag

from decouple.index import catalog, site
from decouple.release.wheel_manifest import MEMBER, OverlayContent, SeriesContent, WheelManifest

SERIES_A = "a" * 64
SERIES_B = "b" * 64


def make_wheel(
    folder: Path,
    project: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    requires_python: str = ">=3.9",
    cuda: str | None = None,
    series: str = SERIES_A,
    tag: str = "py3-none-any",
    extra_members: dict[str, bytes] | None = None,
    manifest: bytes | None = None,
    arch: str = "9.0",
    build: str = "",
    tree: str = "f" * 40,
) -> Path:
    """Write ``<project>-<version>[-<build>]-<tag>.whl`` into ``folder`` and return its path."""
    distribution = project.replace("-", "_")
    package = "torch" if project == "torch" else distribution
    info = f"{distribution}-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {project}",
        f"Version: {version}",
        "Summary: a small wheel for tests",
        f"Requires-Python: {requires_python}",
        "Description-Content-Type: text/plain",
        *(f"Requires-Dist: {requirement}" for requirement in requires),
    ]
    members = {
        f"{package}/__init__.py": f"__version__ = {version!r}\n".encode(),
        f"{info}/METADATA": ("\n".join(metadata) + "\n\nA small wheel.\n").encode(),
        f"{info}/WHEEL": "".join(
            f"{line}\n"
            for line in (
                "Wheel-Version: 1.0",
                "Generator: tests",
                "Root-Is-Purelib: true",
                *([f"Build: {build}"] if build else []),
                *(f"Tag: {one}" for one in sorted(map(str, parse_tag(tag)))),
            )
        ).encode(),
        f"{info}/{MEMBER}": manifest
        if manifest is not None
        else make_manifest(project, version, cuda, series, arch, tree).to_json(),
        **(extra_members or {}),
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    rows.writerows((name, f"sha256={_record_hash(data)}", len(data)) for name, data in members.items())
    rows.writerow((f"{info}/RECORD", "", ""))
    members[f"{info}/RECORD"] = record.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{distribution}-{version}-{f'{build}-' if build else ''}{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def make_manifest(
    project: str, version: str, cuda: str | None, series: str, arch: str = "9.0", tree: str = "f" * 40
) -> WheelManifest:
    """A build manifest that says what a real one would."""
    return WheelManifest(
        release=".".join(version.split(".")[:2]),
        project=project,
        version=version,
        upstream={"version": "2.6.0", "tag": "v2.6.0", "commit": "0" * 40},
        sources=({"name": "orig", "url": "https://example.org/orig.tar.xz", "size": 1, "sha256": "c" * 64},),
        series=SeriesContent(series, ({"path": "2.6/0001-x.patch", "sha256": "d" * 64},)),
        overlay=OverlayContent("e" * 64),
        tree=tree,
        cuda=cuda,
        arch_list=(arch,) if cuda else (),
    )


def make_pair(
    folder: Path,
    *,
    revision: int = 1,
    series: str = SERIES_A,
    cuda: str = "12.4",
    core_members: dict[str, bytes] | None = None,
) -> tuple[Path, Path]:
    """A core wheel and the torch-cuda wheel that is pinned to it."""
    core = f"2.6.0+decoupled.{revision}"
    label = "cu" + cuda.replace(".", "")
    return (
        make_wheel(folder, "torch", core, series=series, extra_members=core_members),
        make_wheel(
            folder, "torch-cuda", f"2.6.0+{label}.{revision}", requires=(f"torch=={core}",), cuda=cuda, series=series
        ),
    )


def publish_beside_patched(folder: Path, root: Path) -> Path:
    """Publish bindings for an unmodified torch in a site with patched cores, as earlier versions did."""
    wheel = make_wheel(folder, "torch-cuda", "2.6.0+cu124.official", requires=("torch==2.6.0",), cuda="12.4")
    before = catalog.read_releases(root)["2.6"]
    catalog.write_entries(root, "2.6", [])
    site.build_site(folder, root)
    catalog.write_entries(root, "2.6", [*before, *catalog.read_releases(root)["2.6"]])
    site.write_pages(root)
    return wheel


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_environment(**more: str) -> dict[str, str]:
    """The variables for pip and uv: no other index than the named one, no driver but the one that is said."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "NV_VARIANT"))}
    return plain | {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"} | more


def installed(tmp_path: Path) -> dict[str, str]:
    """The versions of what is in the environment ``env``, by project."""
    found = (
        path.name.removesuffix(".dist-info") for path in tmp_path.glob("env/lib/python*/site-packages/*.dist-info")
    )
    return dict(sorted(name.split("-", 1) for name in found))
