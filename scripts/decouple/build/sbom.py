"""Make a wheel's bill of materials (CycloneDX 1.6, JSON).

It has the wheel's parts, their origin and licences, and its requirements. It is made of the build manifest, METADATA
and the names in the wheel, and of nothing else: the same wheel gives the same bytes, so its serial number is derived
from those and its time is that of the sources. Sources: PEP 770 (where it lies in a wheel), the CycloneDX 1.6
specification, purl-spec (pypi, deb, generic, github).
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import DisjunctiveLicense, LicenseAcknowledgement, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import is_expression
from msgspec import Struct
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from decouple.base import toml
from decouple.release import projects
from decouple.release.wheel_manifest import WheelManifest

NO_ASSERTION = "NOASSERTION"
"""What stands where nobody has read a licence; SPDX's word."""
_FACTS = Path(__file__).with_name("sbom.toml")
_KERNELS = "libtorch_cuda.so"
_BINDINGS = re.compile(r".*/(libtorch_python_cuda|_CUDAC)[^/]*\.so")
_IN_THE_SOURCE = "what pytorch's own archive carries (third_party/miniz-3.0.2, for one): part of pytorch here"
_OF_THE_ROOT = "headers and static libraries of the build's packages: toolchain.packages of decouple.json names those"
_IN_THE_OFFICIAL = "what upstream linked into the libraries of its wheel"


class _PytorchFacts(Struct, frozen=True):
    repository: str
    licence: str


class _LinkedLibrary(Struct, frozen=True):
    project: str
    file: str
    variables: Mapping[str, str]
    licence: str


class _GraftedLibrary(Struct, frozen=True):
    library: str
    licence: str


class _Facts(Struct, frozen=True):
    pytorch: _PytorchFacts
    linked: tuple[_LinkedLibrary, ...]
    grafted: tuple[_GraftedLibrary, ...]


def make_bom(manifest: WheelManifest, metadata: bytes, members: Mapping[str, str], epoch: int) -> bytes:
    """Make the bill of materials of a wheel with this METADATA and these members.

    ``members`` maps name to SHA-256. ``epoch`` is in seconds since 1970. Raises DecoupleError when this project's own
    table of licences is wrong.
    """
    facts = toml.read_own_table(_FACTS, _Facts)
    headers = projects.parse_metadata(metadata)
    whole = _make_component(
        manifest.project,
        manifest.version,
        licence=headers.get("License-Expression") or headers.get("License") or "",
        purl=PackageURL("pypi", None, str(canonicalize_name(manifest.project)), manifest.version),
    )
    third_party, official = (
        list(_list_third_party(manifest, members)),
        list(_list_official_wheels(manifest, members, facts.pytorch)),
    )
    parts = [
        _describe_pytorch(manifest, facts.pytorch),
        *third_party,
        *_list_linked_libraries(manifest, facts),
        *_list_grafted_libraries(members, facts),
        *official,
    ]
    for part in parts:
        part.properties.add(Property(name="decouple:bundled", value="true"))
    asked = [_describe_requirement(component) for component in projects.parse_requirements(headers)]
    properties = {
        "decouple:series-sha256": manifest.series.digest,
        "decouple:overlay-sha256": manifest.overlay.digest,
        "decouple:tree": manifest.tree,
        "decouple:manifest-sha256": hashlib.sha256(manifest.to_json()).hexdigest(),
        "decouple:not-listed": "; ".join(
            (_IN_THE_SOURCE, *([] if third_party else [_OF_THE_ROOT]), *([_IN_THE_OFFICIAL] if official else []))
        ),
    }
    by_ref = {str(component.bom_ref.value): component for component in (*parts, *asked)}
    made = Bom(
        components=by_ref.values(),
        serial_number=_make_serial_number(manifest, metadata, members),
        metadata=BomMetaData(
            component=whole,
            timestamp=datetime.fromtimestamp(epoch, UTC),
            properties=[Property(name=name, value=value) for name, value in properties.items()],
        ),
        dependencies=[
            Dependency(whole.bom_ref, (Dependency(component.bom_ref) for component in by_ref.values())),
            *(Dependency(component.bom_ref) for component in by_ref.values()),
        ],
    )
    text = json.loads(JsonV1Dot6(made).output_as_string())
    return (json.dumps(text, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _make_serial_number(manifest: WheelManifest, metadata: bytes, members: Mapping[str, str]) -> uuid.UUID:
    """Make a serial number, another one for each wheel.

    Two halves of one have the same manifest.
    """
    named = "".join(f"{name}\0{sha256}\n" for name, sha256 in sorted(members.items()))
    digest = hashlib.sha256(manifest.to_json() + b"\0" + metadata + b"\0" + named.encode()).hexdigest()
    return uuid.uuid5(uuid.NAMESPACE_OID, digest)


def _make_component(
    name: str,
    version: str | None = None,
    *,
    ref: str = "",
    purl: PackageURL | None = None,
    licence: str = "",
    properties: Mapping[str, str] | None = None,
    **more: Any,
) -> Component:
    return Component(
        name=name,
        version=version,
        type=more.pop("type", ComponentType.LIBRARY),
        bom_ref=ref or str(purl),
        purl=purl,
        licenses=[_parse_licence(licence)],
        properties=[
            Property(name=f"decouple:{key}", value=value) for key, value in (properties or {}).items() if value
        ],
        **more,
    )


def _parse_licence(text: str) -> LicenseExpression | DisjunctiveLicense:
    """Parse a licence as the component declares it.

    An SPDX expression where it is one, else the name that it has.
    """
    if text and is_expression(text):
        return LicenseExpression(text, acknowledgement=LicenseAcknowledgement.DECLARED)
    return DisjunctiveLicense(
        name=text or NO_ASSERTION, acknowledgement=LicenseAcknowledgement.DECLARED if text else None
    )


def _describe_pytorch(manifest: WheelManifest, facts: _PytorchFacts) -> Component:
    """Describe the patched source, with its files that the release manifest pins."""
    upstream = manifest.upstream
    group, name = facts.repository.split("/")
    tag = upstream.get("tag", "")
    files = [row for row in manifest.sources if "folder" not in row and not _is_wheel(row)]
    return _make_component(
        name,
        upstream.get("version"),
        type=ComponentType.FRAMEWORK,
        purl=PackageURL("github", group, name, tag or upstream.get("version")),
        licence=facts.licence,
        properties={"tag": tag, "commit": upstream.get("commit", "")},
        external_references=[_make_file_reference(row) for row in files if row.get("url")],
    )


def _list_third_party(manifest: WheelManifest, members: Mapping[str, str]) -> Iterator[Component]:
    """List the rows of third-party components, if anything was compiled here."""
    if _is_official(manifest) and not any(_BINDINGS.fullmatch(name) for name in members):
        return
    for row in manifest.sources:
        if folder := str(row.get("folder", "")):
            name, version, url = folder.rpartition("/")[2], str(row.get("version", "")), str(row.get("url", ""))
            properties = {"folder": f"third_party/{folder}", "pin": str(row.get("pin", ""))}
            if not url:
                properties["sha256"] = str(row.get("sha256", ""))  # of a folder's content, as the manifest says it
            yield _make_component(
                name,
                version,
                ref=f"third_party/{folder}",
                purl=_make_package_url(name, version, row) if url else None,
                licence=str(row.get("licence", "")),
                properties=properties,
                external_references=[_make_file_reference(row)] if url else [],
            )


def _make_package_url(name: str, version: str, row: Mapping[str, Any]) -> PackageURL:
    """Make the URL of the package that the archive is.

    PyPI's, a binary package of Debian's, else the archive at its address.

    Debian's upstream archive without its patches is not the source package that a `deb` would name.
    """
    file = str(row.get("name", ""))
    if file.endswith(".deb"):
        package, full, architecture = file.removesuffix(".deb").split("_")
        return PackageURL("deb", "debian", package, full, {"arch": architecture})
    if "files.pythonhosted.org" in str(row["url"]):
        try:
            project, release = parse_sdist_filename(file)
            return PackageURL("pypi", None, project, str(release), {"file_name": file})
        except InvalidSdistFilename:
            pass
    asked = {"download_url": str(row["url"]), "checksum": f"sha256:{row.get('sha256', '')}"}
    return PackageURL("generic", None, name, version, asked)


def _list_linked_libraries(manifest: WheelManifest, facts: _Facts) -> Iterator[Component]:
    """List what a core statically links, if the manifest knows the file it came from."""
    known = (manifest.toolchain.get("inputs") or {}).get("pypi") or {}
    for library in facts.linked:
        if any(manifest.environment.get(name) != value for name, value in library.variables.items()):
            continue
        for file, sha256 in sorted(known.items()):
            if file.startswith(library.file):
                version = str(parse_wheel_filename(file)[1])
                yield _make_component(
                    library.project,
                    version,
                    purl=PackageURL("pypi", None, library.project, version, {"file_name": file}),
                    licence=library.licence,
                    hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
                )


def _list_grafted_libraries(members: Mapping[str, str], facts: _Facts) -> Iterator[Component]:
    """List the build system's libraries that auditwheel put in (``<project>.libs/``)."""
    for name, sha256 in sorted(members.items()):
        folder, _, base = name.partition("/")
        if folder.endswith(".libs") and base:
            yield _make_component(
                base,
                ref=name,
                licence=next((library.licence for library in facts.grafted if base.startswith(library.library)), ""),
                properties={"member": name},
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
            )


def _list_official_wheels(
    manifest: WheelManifest, members: Mapping[str, str], facts: _PytorchFacts
) -> Iterator[Component]:
    """List the wheel that the kernels are from, where they are in this one.

    The last source of such a manifest.
    """
    if not _is_official(manifest) or not any(name.endswith(f"/{_KERNELS}") for name in members):
        return
    for row in [source for source in manifest.sources if _is_wheel(source)][-1:]:
        file = str(row["name"])
        project, version, *_ = parse_wheel_filename(file)
        yield _make_component(
            project,
            str(version),
            purl=PackageURL("pypi", None, project, str(version), {"file_name": file}),
            licence=facts.licence,
            properties={"taken": "the libraries with kernels, their run paths set anew"},
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=str(row["sha256"]))],
            external_references=[_make_file_reference(row, ExternalReferenceType.DISTRIBUTION)],
        )


def _describe_requirement(requirement: Requirement) -> Component:
    """Describe what pip brings beside the wheel; nothing of it is inside."""
    pins = [specifier.version for specifier in requirement.specifier if specifier.operator == "=="]
    version = pins[0] if len(pins) == 1 else None
    name, marker = str(canonicalize_name(requirement.name)), str(requirement.marker or "")
    purl = PackageURL("pypi", None, name, version)
    properties = {"bundled": "false", "specifier": str(requirement.specifier), "marker": marker}
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"requires:{requirement}",
        purl=purl,
        scope=ComponentScope.OPTIONAL if "extra ==" in marker else ComponentScope.REQUIRED,
        properties=[Property(name=f"decouple:{key}", value=value) for key, value in properties.items() if value],
    )


def _make_file_reference(
    row: Mapping[str, Any], kind: ExternalReferenceType = ExternalReferenceType.SOURCE_DISTRIBUTION
) -> ExternalReference:
    digest = HashType(alg=HashAlgorithm.SHA_256, content=str(row.get("sha256", "")))
    return ExternalReference(type=kind, url=XsUri(str(row["url"])), comment=str(row.get("name", "")), hashes=[digest])


def _is_official(manifest: WheelManifest) -> bool:
    return bool(manifest.flags.get("kernels", "compiled") != "compiled")


def _is_wheel(row: Mapping[str, Any]) -> bool:
    try:
        return bool(parse_wheel_filename(str(row.get("name", ""))))
    except InvalidWheelFilename:
        return False
