"""Sign and read the list of current wheels, with an end date.

It is against a server that replays an older list, or hides a yank. A wheel's own statement
(`decouple.index.provenance`) is true for ever, also after the wheel was yanked. So the lists that the pages are made
from (``releases/<release>.json``) are the targets of a repository of The Update Framework in ``tuf/`` of the site:
``root`` names the keys, ``timestamp`` ends soon, and a client never goes back to a version below one that it saw.
python-tuf does all of it; here is what our sites need. Source: TUF specification 1.0.

One list of keys, no delegations, no consistent snapshots: a site is a folder on any web server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from msgspec.structs import replace
from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
)
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, TargetFile, Targets, Timestamp
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig

from decouple.base.errors import DecoupleError, UsageError, refuse_below
from decouple.base.files import hold_lock, write_atomically
from decouple.base.untrusted_input import parse_json, read_bounded
from decouple.index import catalog
from decouple.index.catalog import CatalogEntry
from decouple.index.offer import Offer, Page, Refusal
from decouple.index.provenance import load_private_key
from decouple.index.remote import Index, NotThereError, RefusedError

FOLDER = "tuf"
ROOT_DAYS = 730
"""How long a root is good; it is renewed when less than `ROOT_MARGIN` days of it are left."""
ROOT_MARGIN = 90
DAYS = 30
"""How long a list is good unless the publisher says otherwise; as long can a server hold back what is newer."""
_MOST_DAYS = 36500
"""A hundred years; a date that is much later no clock can tell."""
BOUND = 4 << 20
"""Bytes of one file in ``tuf/`` and of one release list."""

_ONLINE = (Timestamp.type, Snapshot.type, Targets.type)
_BY_HAND = "do not install; ask the publisher, by another way than this server"


def sign_lists(
    site: Path, key: Path, root_key: Path | None = None, days: int = DAYS, old_root_key: Path | None = None
) -> tuple[str, ...]:
    """Sign the lists of a site anew for ``days`` days.

    Returns the paths written, the root first when it changed.

    ``root_key`` (default: ``key``) signs who may sign; it is needed the first time, for another ``key``, and before the
    root ends, and may lie elsewhere between. ``old_root_key`` hands the root over to ``root_key``: both sign the new
    root, so that who trusts the old one trusts it too (TUF, 5.3.4). Raises UsageError when a key is needed and not
    given, DecoupleError for keys that are none.
    """
    refuse_below(1, days=days)
    if days > _MOST_DAYS:
        raise UsageError(f"--days {days}: at most {_MOST_DAYS}", next_step=f"leave it out for {DAYS}")
    if not site.is_dir():
        raise UsageError(f"{site}: no such folder", next_step="publish first: decouple index build FOLDER --site SITE")
    with hold_lock(site):  # of two at once one would sign what the other is about to replace
        return _sign_site(site, CryptoSigner(load_private_key(key)), root_key, days, old_root_key)


def _sign_site(
    site: Path, signer: CryptoSigner, root_key: Path | None, days: int, old_root_key: Path | None
) -> tuple[str, ...]:
    now = datetime.now(UTC).replace(microsecond=0)
    written = _write_root(site / FOLDER, signer, root_key, old_root_key, now)
    lists = {f"{catalog.FOLDER}/{release}.json" for release in catalog.read_releases(site)}
    targets = {name: TargetFile.from_file(name, str(site / name), ["sha256"]) for name in sorted(lists)}
    ends = now + timedelta(days=days)
    snapshot = Snapshot(_find_next_version(site, Snapshot.type), expires=ends)
    listed = Targets(_find_next_version(site, Targets.type), expires=ends, targets=targets)
    timestamp = Timestamp(_find_next_version(site, Timestamp.type), expires=ends)
    snapshot.meta = {"targets.json": MetaFile(listed.version)}
    timestamp.snapshot_meta = MetaFile(snapshot.version)
    for signed in (listed, snapshot, timestamp):  # what names the others last
        written.append(_write_metadata(site / FOLDER / f"{signed.type}.json", signed, signer))
    return tuple(str(path.relative_to(site)) for path in written)


def read_current_list(index: Index, root: Path, release: str, cache: Path) -> dict[str, CatalogEntry]:
    """Read the signed list of a release, by file name.

    ``root`` is a root file that came by another way than the index. What was seen is remembered in ``cache``, so that
    nothing older is taken later. Raises DecoupleError when a signature, a version, an end date or a hash does not hold.
    """
    site = urljoin(index.address, "../")
    folder = cache / FOLDER / hashlib.sha256(site.encode()).hexdigest()[:32]
    where = f"{site}{FOLDER}/"
    try:
        trusted = read_bounded(root, BOUND)
        with hold_lock(folder / ".lock"):
            (folder / "lists").mkdir(exist_ok=True)
            updater = Updater(
                str(folder),
                where,
                str(folder / "lists"),
                site,
                _Fetcher(index),
                UpdaterConfig(targets_max_length=BOUND, prefix_targets_with_hash=False),
                bootstrap=trusted,
            )
            updater.refresh()
            name = f"{catalog.FOLDER}/{release}.json"
            target = updater.get_targetinfo(name)
            if target is None:
                raise DecoupleError(f"{where}: no list of release {release} is signed", next_step="choose another")
            if target.length > BOUND:
                raise DecoupleError(f"{where}: a list of {target.length} bytes", next_step=_BY_HAND)
            place = updater.download_target(target, str(folder / "lists" / f"{release}.json"))
            document = parse_json(read_bounded(Path(place), BOUND))
    except DecoupleError:
        raise
    except ExpiredMetadataError as error:
        raise DecoupleError(
            f"{where}: {error}: the server holds back what is newer, or the publisher has not signed again",
            next_step=_BY_HAND,
        ) from error
    except DownloadHTTPError as error:  # of what `_Fetcher` finds not there
        raise DecoupleError(
            f"{where}: no signed list: {error}",
            next_step=f"name the index for all, SITE/simple/, which the list lies beside; where it is that, {_BY_HAND}",
        ) from error
    except (LengthOrHashMismatchError, DownloadLengthMismatchError) as error:
        raise DecoupleError(
            f"{where}: {catalog.FOLDER}/{release}.json is not the list that was signed: {error}",
            next_step=f"{_BY_HAND} (`decouple index sign-list` signs it again)",
        ) from error
    except (RepositoryError, DownloadError, ValueError, KeyError, TypeError, AttributeError) as error:
        if type(error) is DownloadError and isinstance(error.__cause__, DecoupleError):
            raise error.__cause__ from None  # what `_Fetcher` raised; python-tuf says less
        raise DecoupleError(f"{where}: {type(error).__name__}: {error}", next_step=_BY_HAND) from error
    return {entry.filename: entry for entry in catalog.parse_entries(document, f"{site}{name}")}


def narrow_page(page: Page, listed: Mapping[str, CatalogEntry], release: str) -> Page:
    """Return the page with only what is on the signed list of ``release``.

    It has all that the list says of it. Raises DecoupleError when the page lacks a file of the list, or gives it
    another hash.
    """
    offers, refused = [], list(page.refused)
    for offer in page.offers:
        if f"{offer.version.major}.{offer.version.minor}" != release:
            offers.append(offer)  # of a release that nobody asks for; `read_current_list` has no list of it
        elif (entry := listed.get(offer.filename)) is None:
            refused.append(Refusal(offer.filename, "it is not on the signed list"))
        elif offer.sha256 != entry.sha256:
            raise DecoupleError(
                f"{offer.filename}: the page gives sha256 {offer.sha256}, the signed list {entry.sha256}",
                next_step=_BY_HAND,
            )
        else:
            offers.append(_update_offer(offer, entry))
    there = {offer.filename for offer in offers}
    for entry in catalog.select_common(listed.values()):  # `read_current_list` finds the list beside that index alone
        if entry.project == page.project and entry.yanked is None and entry.filename not in there:
            raise DecoupleError(
                f"{entry.filename}: on the signed list, and the page of {page.project} hides it", next_step=_BY_HAND
            )
    return replace(page, offers=tuple(offers), refused=tuple(refused))


def _update_offer(offer: Offer, entry: CatalogEntry) -> Offer:
    return replace(
        offer,
        size=entry.size,
        requires_python=entry.requires_python,
        yanked=entry.yanked,
        metadata=entry.metadata_sha256,
    )


class _Fetcher(FetcherInterface):
    """python-tuf's way to a file, through the index and its bounds."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            return iter((self._index.read_json(url, BOUND),))
        except RefusedError:  # there may be one: a server that is down keeps nobody on an old root
            raise
        except NotThereError as error:  # how the end of the roots is found
            raise DownloadHTTPError(error.what, 404) from error


def _write_root(
    folder: Path, online: CryptoSigner, root_key: Path | None, old_root_key: Path | None, now: datetime
) -> list[Path]:
    """Write a root if none exists, keys changed or it ends soon; return what it wrote."""
    path = folder / "root.json"
    old = _read_metadata(path)
    wanted = online.public_key.keyid
    if old is not None:
        root = old.signed
        assert isinstance(root, Root)
        held = all(root.roles[role].keyids == [wanted] for role in _ONLINE)
        if held and old_root_key is None and root.expires > now + timedelta(days=ROOT_MARGIN):
            return []
        if root_key is None and root.roles[Root.type].keyids != [wanted]:
            why = "ends soon" if held else "names another key"
            raise UsageError(f"{path}: it {why}, and only the root's key can change it", next_step="give --root-key")
    signer = online if root_key is None else CryptoSigner(load_private_key(root_key))
    if old is None and old_root_key is not None:
        raise UsageError(f"{path}: no root to hand over", next_step="leave --old-root-key out")
    before = signer if old_root_key is None else CryptoSigner(load_private_key(old_root_key))
    if old is not None and before.public_key.keyid not in old.signed.roles[Root.type].keyids:
        raise UsageError(
            f"{old_root_key or root_key or path}: not the key of this site's root",
            next_step="give --old-root-key"
            if old_root_key
            else "give --root-key; --old-root-key hands over to another",
        )
    root = Root(
        version=1 if old is None else old.signed.version + 1,
        expires=now + timedelta(days=ROOT_DAYS),
        consistent_snapshot=False,
    )
    root.add_key(signer.public_key, Root.type)
    for role in _ONLINE:
        root.add_key(online.public_key, role)
    versioned = folder / f"{root.version}.root.json"
    signers = (signer,) if before is signer else (before, signer)
    return [_write_metadata(versioned, root, *signers), _write_metadata(path, root, *signers)]


def _find_next_version(site: Path, role: str) -> int:
    old = _read_metadata(site / FOLDER / f"{role}.json")
    return 1 if old is None else int(old.signed.version) + 1


def _read_metadata(path: Path) -> Metadata[Any] | None:
    """Our own file, None when there is none. Raises DecoupleError when it is damaged."""
    try:
        return Metadata.from_bytes(read_bounded(path, BOUND))
    except FileNotFoundError:
        return None
    except (RepositoryError, ValueError) as error:
        raise DecoupleError(
            f"{path}: not a file of The Update Framework: {error}", next_step="restore it from a copy of the site"
        ) from error


def _write_metadata(path: Path, signed: Signed, *signers: CryptoSigner) -> Path:
    whole: Metadata[Any] = Metadata(signed)
    for signer in signers:
        whole.sign(signer, append=True)
    write_atomically(path, whole.to_bytes())
    return path
