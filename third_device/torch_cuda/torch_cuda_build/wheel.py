"""Pack an install tree as a wheel: same tree, same bytes.

Members are sorted, times and modes fixed.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef, import-not-found]

MARKER = 'platform_system == "Linux" and platform_machine == "x86_64"'
_ENTRY_POINTS = "[torch.backends.preload]\n{word} = {package}._preload:preload\n"


def import_name(info: Mapping[str, Any]) -> str:
    """Return what the package of a build is imported as.

    Another vendor's build of the same sources has another name.
    """
    return str(info.get("package", "torch_cuda"))


def find_version(info: Mapping[str, Any]) -> str:
    """Find the version of CUDA, or of the other vendor's toolkit."""
    return str(info["cuda"] if "cuda" in info else info["toolkit_version"])


def name_toolkit(info: Mapping[str, Any]) -> str:
    """Say whose toolkit it is, with its version."""
    return f"{'CUDA' if 'cuda' in info else info['toolkit']} {find_version(info)}"


def read_pins(table: Path) -> dict[str, dict[str, Any]]:
    """Read the TOML *table*: version of the toolkit -> name on PyPI -> its pin."""
    return tomllib.loads(table.read_text(encoding="utf-8"))


def list_requirements(table: Path, info: Mapping[str, Any]) -> list[str]:
    """Return ``Requires-Dist`` values for a build described by *info*.

    *info* is ``build_info.json``; pins come from the TOML *table*. A patched core is pinned with its local version:
    ``torch==2.6.0`` would also take a torch that has CUDA of its own. A stock core is any build of its version, such as
    a candidate's (``2.7.0rc1``). Raises KeyError when the table has no pins for the version of CUDA, or of the other
    vendor's toolkit.
    """
    pins = read_pins(table)[find_version(info)]
    core = str(info["core_version"])
    found = [f"torch=={core if info['core'] == 'built' else core.partition('+')[0]}"]
    libraries = info.get("libraries", {})
    for name, pin in sorted(pins.items()):
        if "only" in pin and libraries.get(pin["only"], "off") == "off":
            continue
        version = pin["version"]
        built = str(libraries.get(pin.get("built", ""), ""))
        if built[:1].isdigit() and version != built and not version.startswith(built + "."):
            version = built + ".*" * (version.count(".") > built.count("."))
        found.append(f"{name}=={version} ; {MARKER}")
    return found


_FOREIGN = """
The machine code is not this project's: `libtorch_cuda` and the libraries beside it are those of {whose}
(`torch_cuda/kernels.json` names it and the SHA-256 of each file), unmodified but for {changed}, and passed on under the
licences in `torch_cuda/licenses`. Compiled by this project are `libtorch_python_cuda` and `_CUDAC`{more}. It works
with a core of the same C++ ABI ({abi}).
"""
_WHOSE = {
    "official": ("PyTorch's own wheel", "the paths on which they look for their neighbours"),
    "installed": (
        "another CUDA build of this release",
        "their names and the paths on which they look for their neighbours",
    ),
}
_PATCHED = ", and `libtorch_cuda_patched`, which answers what the patched core asks and `libtorch_cuda` has not"
_KINETO = ", and from Kineto's sources `libtorch_kineto_cuda`"
_LEFT_OUT = {
    "magma": "MAGMA: `torch.linalg.eig` and `eigvals` refuse a CUDA tensor, and so does `ldl_factor` of complex ones "
    "with `hermitian=True`; give them `.cpu()`. The rest of `torch.linalg` uses cuSOLVER and cuBLAS.",
    "tensorpipe": "TensorPipe's CUDA channels: `torch.distributed.rpc` with device maps refuses a CUDA tensor; send "
    "`.cpu()`, or use NCCL's collectives.",
}
"""What its user misses of the official wheel's, where ``libraries`` of ``build_info.json`` says "off"."""
_DESCRIPTION = """\
# {package}

{vendor} for a PyTorch {torch} that was built without it. Nothing needs to be imported: `import torch` finds this
package, and `torch.cuda` works as in PyTorch's own CUDA builds. `TORCH_DEVICE_BACKEND_AUTOLOAD=0` leaves it out.
"""


def format_metadata(info: Mapping[str, Any], requires: Iterable[str]) -> str:
    """Write the text of the METADATA file."""
    whose = name_toolkit(info).split()[0]
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {import_name(info).replace('_', '-')}",
        f"Version: {info['version']}",
        f"Summary: PyTorch's {whose} backend, as a package beside a torch that was built without CUDA",
        "Requires-Python: >=3.9",
        *(f"Requires-Dist: {value}" for value in requires),
        "Description-Content-Type: text/markdown",
    ]
    text = _DESCRIPTION.format(package=import_name(info), vendor=name_toolkit(info), torch=info["torch"])
    if info.get("kernels", "compiled") != "compiled":
        abi = "C++11" if info.get("cxx11_abi") == "1" else "pre-C++11"
        more = (_KINETO if info.get("kineto") == "ON" else "") + (_PATCHED if info.get("core") == "built" else "")
        whose, changed = _WHOSE.get(info["kernels"], _WHOSE["installed"])
        text += _FOREIGN.format(whose=whose, changed=changed, more=more, abi=f"{abi}, as those libraries")
    left_out = [said for name, said in _LEFT_OUT.items() if info.get("libraries", {}).get(name) == "off"]
    if "cuda" in info and left_out:
        text += "\nNot in this build, and in PyPI's torch:\n\n" + "".join(f"* {said}\n" for said in left_out)
    return "\n".join(lines) + f"\n\n{text}"


def make_tag(info: Mapping[str, Any], platform: str) -> str:
    """Make the wheel's tag from the extension's SOABI and sysconfig's *platform*.

    A SOABI is such as ``cpython-313-x86_64-linux-gnu``. What is behind the digits (``313t``: free-threaded) is of the
    ABI, and not of the Python (PyPA, platform tags).
    """
    _, version, *_ = str(info["python"]).split("-")
    python = re.match(r"\d+", version)
    return f"cp{python[0] if python else version}-cp{version}-{platform.replace('-', '_').replace('.', '_')}"


def write_wheel(
    members: Mapping[str, Path | bytes],
    info: Mapping[str, Any],
    wheel_tag: str,
    folder: Path,
    requires: Iterable[str],
    *,
    stored: bool = False,
) -> Path:
    """Write the wheel with *members* into *folder*; return its path.

    *members*: name in the wheel -> file or content.
    """
    stem = f"{import_name(info)}-{info['version']}"
    dist_info = f"{stem}.dist-info"
    contents: dict[str, Path | bytes] = dict(members)
    contents[f"{dist_info}/METADATA"] = format_metadata(info, requires).encode()
    contents[f"{dist_info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: torch_cuda_build\nRoot-Is-Purelib: false\nTag: {wheel_tag}\n".encode()
    )
    points = _ENTRY_POINTS.format(word=info.get("word", "cuda"), package=import_name(info))
    contents[f"{dist_info}/entry_points.txt"] = points.encode()
    modules = {name.split("/")[0].removesuffix(".py") for name in members if name.endswith((".py", ".so"))}
    contents[f"{dist_info}/top_level.txt"] = "".join(f"{name}\n" for name in sorted(modules)).encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")  # a name may hold a comma or a quotation mark
    target = folder / f"{stem}-{wheel_tag}.whl"
    partial = target.with_suffix(".partial")
    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    partial.unlink(missing_ok=True)  # what was left there may be a link
    with partial.open("xb") as file, zipfile.ZipFile(file, "w", kind, compresslevel=6) as archive:
        for name in sorted(contents, key=lambda name: (name.startswith(dist_info), name)):
            digest, size = _add_member(archive, name, contents[name])
            rows.writerow((name, f"sha256={digest}", size))
        rows.writerow((f"{dist_info}/RECORD", "", ""))
        _add_member(archive, f"{dist_info}/RECORD", record.getvalue().encode())
    partial.replace(target)
    return target


def _add_member(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> tuple[str, int]:
    entry = zipfile.ZipInfo(name, _read_timestamp())
    entry.compress_type = archive.compression
    executable = name.endswith(".so") or ".so." in name
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    digest = hashlib.sha256()
    size = 0
    with archive.open(entry, "w", force_zip64=True) as member:
        for chunk in _read_chunks(content):
            member.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode(), size


def _read_chunks(content: Path | bytes) -> Iterable[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _read_timestamp() -> tuple[int, int, int, int, int, int]:
    """SOURCE_DATE_EPOCH as a ZIP time, or the earliest that ZIP can hold."""
    import os

    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or "315532800")
    year, month, day, hour, minute, second = time.gmtime(max(seconds, 315532800))[:6]
    return year, month, day, hour, minute, second
