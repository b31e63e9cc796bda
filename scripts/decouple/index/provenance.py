"""Sign and verify who says that a wheel was made from what.

The statement is an in-toto statement with an SLSA provenance predicate, signed as DSSE. The keys are ed25519
(``decouple index key NAME`` makes a pair), for hosts that have no network identity; the envelope is the one of sigstore
and in-toto tools (securesystemslib does the cryptography), so that those can read it as well. Sources: in-toto
Attestation Framework, Statement v1; SLSA provenance v1; DSSE v1.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically
from decouple.base.untrusted_input import parse_json, read_bounded
from decouple.index.site import STATEMENT
from decouple.index.wheel import Wheel

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://github.com/pytorch/rfcs/pull/82#decoupled-cuda-series"
_KEY_BOUND = 1 << 16  # bytes
_NOT_SIGNED_HERE = "ask the publisher for the statement that `decouple index sign` wrote; do not install it"


def make_statement(wheel: Wheel) -> dict[str, Any]:
    """Make the unsigned statement.

    The wheel's digest as subject, its build manifest as the build definition.
    """
    manifest = wheel.manifest
    dependencies = [
        {"uri": source.get("url"), "name": source.get("name"), "digest": {"sha256": source.get("sha256")}}
        for source in manifest.sources
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": wheel.path.name, "digest": {"sha256": wheel.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "release": manifest.release,
                    "cuda": manifest.cuda,
                    "archList": list(manifest.arch_list),
                    "flags": dict(manifest.flags),
                },
                "internalParameters": {
                    "seriesDigest": manifest.series.digest,
                    "overlayDigest": manifest.overlay.digest,
                    "tree": manifest.tree,
                    "toolchain": dict(manifest.toolchain),
                },
                "resolvedDependencies": [
                    {"uri": f"git+https://github.com/pytorch/pytorch@{manifest.upstream.get('commit', '')}"},
                    *dependencies,
                ],
            },
            "runDetails": {"builder": {"id": "decouple build"}, "metadata": dict(manifest.times)},
        },
    }


def make_key(private: Path) -> Path:
    """Write a new ed25519 key to ``private`` and return its public half.

    That half is in ``<private>.pub``. The mode is 0600, the format PKCS8 PEM. Where the private half alone is there, as
    a killed run leaves it, that gets its public one.

    Raises UsageError rather than replace a key, DecoupleError when what is there is none.
    """
    public = private.with_name(private.name + ".pub")
    if private.exists() and not public.exists():
        key = load_private_key(private)
    else:
        for path in (private, public):
            if path.exists():
                raise UsageError(f"{path}: exists; a key is never replaced", next_step="choose another name")
        key = Ed25519PrivateKey.generate()
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_atomically(private, encoded, mode=0o600)
    write_atomically(
        public,
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    return public


def sign_wheel(wheel: Wheel, private: Path) -> Path:
    """Write the signed statement beside the wheel (``<wheel>.intoto.json``).

    Returns its path. Raises DecoupleError.
    """
    key = load_private_key(private)
    envelope = Envelope(json.dumps(make_statement(wheel), sort_keys=True).encode(), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key))
    path = wheel.path.with_name(wheel.path.name + STATEMENT)
    write_atomically(path, json.dumps(envelope.to_dict(), indent=1, sort_keys=True) + "\n")
    return path


def verify_statement(wheel: Wheel, signed: bytes, public: Path) -> Mapping[str, Any]:
    """Check the envelope against the key and the statement against the wheel.

    Returns the statement. Raises DecoupleError when the signature, the subject or any parameter is not the wheel's.
    """
    name = wheel.path.name + STATEMENT
    key = SSlibKey.from_crypto(_load_key(public, "public"))
    try:
        envelope = Envelope.from_dict(parse_json(signed))
        envelope.verify([key], 1)
        content: Mapping[str, Any] = parse_json(envelope.payload)
    except VerificationError as error:
        raise DecoupleError(
            f"{name}: not signed by {public.name}", next_step="ask the publisher for the right key; do not install it"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # what a parser says of other types
        raise DecoupleError(f"{name}: not a DSSE envelope: {error!r}", next_step=_NOT_SIGNED_HERE) from error
    if envelope.payload_type != PAYLOAD_TYPE:
        raise DecoupleError(
            f"{name}: payload type {envelope.payload_type!r}, expected {PAYLOAD_TYPE!r}", next_step=_NOT_SIGNED_HERE
        )
    ours = json.loads(json.dumps(make_statement(wheel)))
    if content != ours:
        other = not isinstance(content, dict) or content.get("subject") != ours["subject"]
        fault = "of another file" if other else "and disagrees with the wheel's own manifest"
        raise DecoupleError(f"{name}: a valid signature, but {fault}", next_step="do not install this wheel")
    return content


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Load the private key at ``path``.

    Raises DecoupleError when it is none, OSError.
    """
    key: Ed25519PrivateKey = _load_key(path, "private")
    return key


def _load_key(path: Path, half: str) -> Any:
    """Load an ed25519 key; ``half`` is "private" or "public".

    Raises DecoupleError, OSError.
    """
    data = read_bounded(path, _KEY_BOUND)
    try:
        if half == "private":
            private = serialization.load_pem_private_key(data, password=None)
            if isinstance(private, Ed25519PrivateKey):
                return private
        else:
            public = serialization.load_pem_public_key(data)
            if isinstance(public, Ed25519PublicKey):
                return public
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DecoupleError(
            f"{path}: not a {half} key: {error}", next_step="decouple index key NAME makes a pair"
        ) from error
    raise DecoupleError(f"{path}: not an ed25519 {half} key", next_step="decouple index key NAME makes a pair")
