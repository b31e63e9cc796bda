"""Split a torch_cuda or torch_hip wheel by what depends on one Python's C API.

``torch-cuda-libraries`` (``py3-none-<platform>``) holds the libraries with the kernels, headers and licences, and asks
for NVIDIA's packages; ``torch-cuda`` keeps its Python's tag, holds the bindings, and asks for exactly one core and
those libraries. Both lie in the package's own folder when they are installed, so nothing else changes: what looks for a
library beside itself finds it there.

Which library goes where is read from the library: what needs ``libtorch_python`` is of one Python.
"""

from __future__ import annotations

import zipfile
from email.message import Message
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from decouple.base import zips
from decouple.base.elf_files import open_elf
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import make_work_folder
from decouple.build import wheel_finishing, wheel_rewrite
from decouple.release import projects
from decouple.release.projects import BACKENDS, CORE, name_libraries
from decouple.release.wheel_manifest import SUFFIX

_SHARED = ("include/", "licenses/", "share/")
_NAMED = ("kernels.json",)
_ONE_PYTHON = "libtorch_python"
_TEXT = """\
# {package}: libraries

The libraries of {project} {version} that no Python's C API is in, with their headers: one file for all Pythons. They are
of use with the wheel {project} of the same version, which asks for them.
"""  # noqa: E501 - as it stands in METADATA


class SplitWheels(Struct, frozen=True):
    """The two wheels that one became."""

    libraries: Path
    bindings: Path


def split_wheel(wheel: Path, folder: Path) -> SplitWheels:
    """Write both halves of ``wheel`` into ``folder``.

    The same libraries give the same bytes, whatever Python the wheel was for: when the file is there already, from
    another Python's wheel, it must be equal and stays.

    Raises UsageError when it is no whole wheel of such a project, when it lies in ``folder`` itself, or when the
    libraries differ from those in ``folder``; DecoupleError when it is no wheel of decouple.
    """
    manifest = wheel_finishing.read_manifest(wheel)
    if (folder / wheel.name).exists() and (folder / wheel.name).samefile(wheel):
        raise UsageError(
            f"{wheel}: its bindings half has the same name and would replace it",
            next_step="name another folder with --out",
        )
    project = canonicalize_name(manifest.project)
    if project not in BACKENDS:
        raise UsageError(
            f"{wheel.name}: a wheel of {manifest.project}", next_step=f"name one of {' or '.join(BACKENDS)}"
        )
    package, libraries = project.replace("-", "_"), name_libraries(project)
    name = wheel_rewrite.parse_plain_name(wheel)
    shared_name = replace(name, distribution=libraries.replace("-", "_"), tag=f"py3-none-{name.platform}")
    epoch = int(manifest.times.get("source_date_epoch", 0))
    with make_work_folder(folder, "split") as work, zips.open_zip(wheel) as source:
        info = wheel_finishing.find_dist_info(source, wheel)
        names = wheel_rewrite.list_payload(source, info)
        shared = [member for member in names if _is_shared(source, package, member, work)]
        if not any(member.endswith(".so") for member in shared):
            raise UsageError(f"{wheel.name}: no library for all Pythons in it", next_step="name a wheel that is whole")
        headers = projects.parse_metadata(source.read(f"{info}/METADATA"))
        raw_libraries = wheel_rewrite.write_raw_wheel(
            work / str(shared_name),
            source,
            shared,
            _make_libraries_metadata(headers, project, manifest.version),
        )
        raw_bindings = wheel_rewrite.write_raw_wheel(
            work / wheel.name,
            source,
            [*(member for member in names if member not in shared), *wheel_rewrite.list_kept_members(source, info)],
            _make_bindings_metadata(headers, f"{libraries}=={manifest.version}"),
        )
        toolchain = {key: value for key, value in manifest.toolchain.items() if key != "python"}  # libraries know none
        half = replace(manifest, project=libraries, toolchain=toolchain)
        # written to a folder of its own: a file of that name may be there, from another Python's wheel
        made = wheel_finishing.finish_wheel(raw_libraries, work / "libraries", half, epoch)
        kept = folder / made.name
        if kept.exists() and not _has_same_payload(made, kept):
            raise UsageError(
                f"{kept.name}: there already with other libraries than {wheel.name} has",
                next_step="build both Pythons' wheels over the same libraries, or name another folder with --out",
            )
        if not kept.exists():
            made.with_name(made.name + SUFFIX).replace(folder / (made.name + SUFFIX))
            made.replace(kept)
        bindings = wheel_finishing.finish_wheel(raw_bindings, folder, manifest, epoch)
    return SplitWheels(kept, bindings)


def _is_shared(source: zipfile.ZipFile, package: str, name: str, work: Path) -> bool:
    """Return whether a member is the same for all Pythons."""
    inside = name.removeprefix(f"{package}/")
    if inside == name:
        return False  # a .pth or another package beside ours
    if inside.startswith("lib/"):
        return not _is_of_one_python(source, name, work)
    return inside.startswith(_SHARED) or inside in _NAMED


def _is_of_one_python(source: zipfile.ZipFile, name: str, work: Path) -> bool:
    """Return whether a library needs libtorch_python (ELF's DT_NEEDED).

    What is no ELF file needs nothing.
    """
    from elftools.elf.dynamic import DynamicSection

    path = Path(source.extract(name, work / "members"))
    try:
        with open_elf(path) as elf:
            return any(
                tag.entry.d_tag == "DT_NEEDED" and str(vars(tag)["needed"]).startswith(_ONE_PYTHON)
                for section in elf.iter_sections()
                if isinstance(section, DynamicSection)
                for tag in section.iter_tags()
            )
    except DecoupleError:
        return False
    finally:
        path.unlink()


def _make_libraries_metadata(headers: Message, project: str, version: str) -> str:
    """Make metadata with another name and text, and no core.

    The bindings, without which they are of no use, pin that.
    """
    summary = f"the libraries of PyTorch's {BACKENDS[project]} backend, for all Pythons"
    change = {"Name": name_libraries(project), "Summary": summary}
    fields = [
        (key, change.get(key, value)) for key, value in headers.items() if not is_requirement_of(key, value, CORE)
    ]
    text = _TEXT.format(package=project.replace("-", "_"), project=project, version=version)
    return wheel_rewrite.format_metadata(fields, text)


def _make_bindings_metadata(headers: Message, libraries: str) -> str:
    """Return the metadata, with the vendor's packages by way of ``libraries``."""
    fields = [
        (key, value) for key, value in headers.items() if key != "Requires-Dist" or is_requirement_of(key, value, CORE)
    ]
    fields.append(("Requires-Dist", libraries))
    return wheel_rewrite.format_metadata(fields, str(headers.get_payload()))


def is_requirement_of(key: str, value: str, project: str) -> bool:
    """Return whether a field of METADATA is a requirement of ``project``."""
    return key == "Requires-Dist" and canonicalize_name(Requirement(value).name) == project


def _has_same_payload(one: Path, other: Path) -> bool:
    """Return whether members match by size and CRC-32, but for metadata and RECORD."""
    contents = []
    for path in (one, other):
        with zips.open_zip(path) as archive:
            contents.append(
                {
                    member.filename: (member.file_size, member.CRC)
                    for member in archive.infolist()
                    if ".dist-info/" not in member.filename
                }
            )
    return contents[0] == contents[1]
