"""Variant wheels: several of one version, of which an installer takes one.

It takes the one for the machine. A label at the end of the file name stands for properties that the machine must have;
a wheel says in ``variant.json`` which, and a page of an index for all of them. To an installer that knows none of this
such a name is no wheel's. Sources: PEP 825 (a draft, as of 2026-11; names and documents), variant schema 0.2.0
(``providers``, which uv 0.13.9 needs and PEP 825 leaves to a later one), nvidia-variant-provider (the properties of a
driver and a GPU).

For owners of an index whose users install by a uv that chooses by driver and GPU (docs/wheels.md): an issue asked for
these beside the ordinary wheels. If the draft is given up, `repack variants` and ``variants/simple/`` go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from decouple.release import projects

LOCAL = "variants"
"""The local version of them all: behind every cuNNN, so that who knows variants prefers it (PEP 440)."""
NULL = "null"
"""The label for any machine (PEP 825)."""
MEMBER = "variant.json"
"""In the dist-info folder."""
Properties = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Namespace -> feature -> values, of which the machine must have one."""

_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
_NAMESPACE = "nvidia"
_PROVIDER = {
    "requires": ["nvidia-variant-provider"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
_LABEL = re.compile(r"[0-9a-z_.]+")
_LISTED = re.compile(r"([^-]+)-([^-]+)-variants\.json")


def split_label(filename: str) -> tuple[str, str | None]:
    """Split a wheel's file name into the name without the label, and the label.

    The label is None where there is none.

    >>> split_label("torch_cuda-2.6.0+variants-cp313-cp313-linux_x86_64-cu124.sm90.whl")
    ('torch_cuda-2.6.0+variants-cp313-cp313-linux_x86_64.whl', 'cu124.sm90')
    >>> split_label("torch-2.6.0-1-py3-none-any.whl")
    ('torch-2.6.0-1-py3-none-any.whl', None)
    """
    *parts, last = filename.removesuffix(".whl").split("-")
    built = len(parts) > 2 and parts[2][:1].isdecimal()  # a build number comes before the tags, and begins with a digit
    labelled = len(parts) == 5 + built and filename.endswith(".whl") and _LABEL.fullmatch(last)
    return (f"{'-'.join(parts)}.whl", last) if labelled else (filename, None)


def make_list_name(distribution: str, version: str) -> str:
    """Name the file of an index that says what the labels of a version stand for."""
    return f"{distribution}-{version}-variants.json"


def parse_list_name(filename: str) -> str | None:
    """Return the project whose labels a file lists, by its name (`make_list_name`).

    Returns None where it is no such file.
    """
    match = _LISTED.fullmatch(filename)
    return match[1] if match else None


def make_variant_version(version: str) -> str:
    """Return the version of a variant of ``version``.

    It is the same for every CUDA and every GPU.

    >>> make_variant_version("2.6.0+cu124.official.sm90"), make_variant_version("2.6.0+cu118.2")
    ('2.6.0+variants.official', '2.6.0+variants.2')
    """
    public, _, local = version.partition("+")
    named = (projects.parse_cuda_label(local) or "").split(".")
    return f"{public}+{'.'.join([LOCAL, *(part for part in local.split('.') if part not in named)])}"


def make_properties(label: str, cuda: str | None, archs: Iterable[str]) -> Properties:
    """List what a machine must have for the wheel of this label.

    The wheel has a CUDA ("12.4") and architectures ("9.0").

    A driver runs any CUDA of its own major version, its own and older ones better (CUDA Compatibility, "Minor Version
    Compatibility"): so both are named, and the provider prefers the higher one that holds. A wheel for all GPUs asks
    for none, so that one made for the GPU comes before it.

    >>> make_properties("cu124.sm90", "12.4", ["9.0"])
    {'nvidia': {'cuda_version_lower_bound': ('12.0', '12.4'), 'sm_arch': ('90_real',)}}
    """
    if cuda is None:
        return {}
    features = {"cuda_version_lower_bound": tuple(sorted({f"{cuda.split('.')[0]}.0", cuda}))}
    if "." in label:
        features["sm_arch"] = tuple(sorted(f"{arch.removesuffix('+PTX').replace('.', '')}_real" for arch in archs))
    return {_NAMESPACE: features}


def encode_document(labels: Mapping[str, Properties]) -> bytes:
    """Encode a wheel's ``variant.json``, or a page's file for all of its labels."""
    body = {
        "$schema": _SCHEMA,
        "default-priorities": {"namespace": [_NAMESPACE]},
        "providers": {_NAMESPACE: _PROVIDER},
        "variants": {label: labels[label] for label in sorted(labels)},
    }
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()
