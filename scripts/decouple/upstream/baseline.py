"""Make the git baseline: a release's pristine tree as one commit.

It lies in a bare repository of the cache. The commit is a function of the tree and the manifest alone (fixed author and
date, no provider in the message), so the same source gives the same commit everywhere, from the release archive as from
a git checkout. The applied tree in ``build/<release>/src`` has its objects as hard links (copies on another file
system) and outlives the cache.

``git fast-import`` takes the bytes as they are: no ``.gitignore``, no ``.gitattributes``, no autocrlf is asked.

Nothing but objects, two branches and a configuration of fixed bytes is in such a repository: whatever else lies there,
a hook, an alternate, a replaced object, was put there by others, and the baseline is made anew without it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shlex
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.files import compute_sha256, hold_lock, remove_folder, write_atomically
from decouple.base.git import SYMLINK, WHOEVER_OWNS_IT, GitError, make_answer, quote_import_path, run_git, start_git
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import read_json
from decouple.patch import series_file
from decouple.release.manifest import Manifest
from decouple.upstream import pristine, tree_record
from decouple.upstream.unpacked_release import UnpackedRelease

UPSTREAM_REF = "refs/heads/upstream"
DEBIAN_REF = "refs/heads/debian"
_RECORD = "decouple.json"  # beside git's own files, which git does not mind
#: Beside objects, all that there may be, and what stands in it; a ref is looked at by itself.
_FIXED = {
    "HEAD": f"ref: {UPSTREAM_REF}\n".encode(),
    "config": b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n[gc]\n\tauto = 0\n",
}
_OBJECTS = re.compile(r"objects/(pack/pack-[0-9a-f]{40}\.(pack|idx|rev)|[0-9a-f]{2}/[0-9a-f]{38})")
#: What the machine lacks and a baseline is not to blame for.
_WANTING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_PASSING = re.compile(r"(.*/)?(tmp_[^/]*|[^/]*\.lock)|\.decouple\.json\..*\.part")
"""What git and we write before it gets its name: another run may be at it."""

#: Author and committer of every commit here; the date is the epoch, so that it says "no date".
_WHO = {
    "GIT_AUTHOR_NAME": "decouple",
    "GIT_AUTHOR_EMAIL": "decouple@localhost",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "decouple",
    "GIT_COMMITTER_EMAIL": "decouple@localhost",
    "GIT_COMMITTER_DATE": "@0 +0000",
}


class Baseline(Struct, frozen=True):
    """What a series starts from.

    ``repo``: bare repository in the cache, never changed by others. ``commit`` and ``tree``: the start of the series
    (with Debian's patches, when asked for). ``upstream``: the pristine commit; the same as ``commit`` without them.
    """

    repo: Path
    commit: str
    tree: str
    upstream: str


def ensure_baseline(
    cache: Path, manifest: Manifest, fetched: UnpackedRelease, debian_patches: bool = False, progress: Progress = SILENT
) -> Baseline:
    """Make the baseline of ``fetched`` unless the cache has it.

    That takes seconds the first time, milliseconds later. Raises DecoupleError when the tree holds something git
    cannot, when Debian's patches are asked for and there are none, when one of them does not apply exactly, or when
    this machine has too few open files or too little memory.
    """
    try:
        return _make_baseline(cache.absolute(), manifest, fetched, debian_patches, progress)
    except OSError as error:
        if error.errno not in _WANTING:
            raise
        raise DecoupleError(
            f"{error.filename or cache}: {error.strerror}",
            next_step="end other programs or raise the limit (ulimit -n, -u, -v), then run again",
            code=CANNOT_HERE,
        ) from None


def _make_baseline(
    cache: Path, manifest: Manifest, fetched: UnpackedRelease, debian_patches: bool, progress: Progress
) -> Baseline:
    if debian_patches and fetched.debian is None:
        raise DecoupleError(
            f"source {fetched.provider} brings no patches of Debian's",
            next_step="use --source debian, or leave --debian-patches out",
        )
    shelf = cache / "baselines" / manifest.release
    listing = None
    identity = fetched.identity
    if identity is None:  # a folder of the user's: its listing (sizes, times, inodes) stands for its content, as in git
        listing = pristine.list_entries(fetched.path)
        identity = f"{fetched.provider}-{_hash_listing(fetched.path, listing)}"
    repo = shelf / f"{identity}.git"
    pinned = manifest.find_source(fetched.provider)
    pins = {UPSTREAM_REF: getattr(pinned, "tree", None), DEBIAN_REF: getattr(pinned, "patched_tree", None)}
    for again in (False, True):
        if not repo.is_dir():
            with hold_lock(shelf / f".{identity}.lock"):
                _remove_leftovers(shelf, identity)
                if not repo.is_dir():
                    _build_repository(repo, manifest, fetched.path, listing, progress)
        try:
            base = _check_baseline(repo, UPSTREAM_REF, pins[UPSTREAM_REF])
            if not debian_patches:
                return base
            assert fetched.debian is not None
            if not (repo / DEBIAN_REF).exists():
                with hold_lock(shelf / f".{identity}.lock"):
                    if not (repo / DEBIAN_REF).exists():
                        _commit_debian_patches(repo, manifest, fetched.debian, progress)
                        _write_record(repo)
            return _check_baseline(repo, DEBIAN_REF, pins[DEBIAN_REF])
        except _DamageError as error:
            if again:
                raise _make_damage_error(error, repo, fetched.path) from None
            with hold_lock(shelf / f".{identity}.lock"):
                if not _is_damaged(repo, pins):  # another run has made it anew meanwhile
                    continue
                progress.start(f"the baseline in the cache was damaged ({error}): made anew")
                mark_step("remove a damaged baseline")
                remove_folder(repo, ignore_errors=True)
                progress.finish()
    raise AssertionError("not reached")


def _is_damaged(repo: Path, pins: Mapping[str, str | None]) -> bool:
    try:
        for ref, pinned in pins.items():
            if ref == UPSTREAM_REF or (repo / ref).exists():
                _check_baseline(repo, ref, pinned)
    except _DamageError:
        return True
    return False


class _DamageError(Exception):
    """What is wrong with a baseline; it can be made again."""


class _OtherTreeError(_DamageError):
    """Another tree than the manifest pins: what it was made of is wrong."""


def _make_damage_error(error: _DamageError, repo: Path, tree: Path) -> DecoupleError:
    """Make the error for a baseline of ``tree`` that is damaged as soon as it is made.

    Only a pinned tree is known to be wrong, and lies in the cache; any other may be the user's own folder.
    """
    if isinstance(error, _OtherTreeError):
        return DecoupleError(
            f"{tree} is not what was fetched: {error}",
            next_step=f"rm -r {shlex.quote(str(tree.parent))} and run again: "
            "it is unpacked anew from the verified files",
        )
    return DecoupleError(
        f"{repo}: a damaged baseline, though just made anew: {error}",
        next_step=f"rm -r {shlex.quote(str(repo))} and run again: it is made of {tree}, which stays as it is",
    )


def _check_baseline(repo: Path, ref: str, pinned: str | None) -> Baseline:
    """Return the baseline, if it is whole and what it should be.

    Raises _DamageError. Its files are looked at (names, sizes, times) against what was recorded when it was made, its
    refs against the record and the pinned tree. Files that are not those recorded are read whole by ``git fsck``,
    once: then they are recorded. Nothing is damaged because it could not be read now, for want of open files, memory
    or a right: that is a DecoupleError.
    """
    for left in repo.glob(f".{_RECORD}.*.part"):  # of a killed run; another that writes now does without its record
        with contextlib.suppress(OSError):
            left.unlink(missing_ok=True)
    record = _read_record(repo)
    try:
        now = _list_files(repo)
        _check_refs(repo, ref)
        try:
            base = _read_baseline(repo, ref)
            if not _has_same_content(repo, record, now):
                _run_git(repo, "fsck", "--full", "--no-dangling", "--no-progress")
        except GitError as error:
            _check_digests(repo, record, now)
            raise DecoupleError(
                f"{repo}: not read, though no file in it is damaged: {error.what}",
                next_step=f"run again; if it stays so, rm -r {shlex.quote(str(repo))} and run again",
            ) from None
    except FileNotFoundError as error:
        raise _DamageError(f"no {error.filename}") from None
    if pinned is not None and base.tree != pinned:
        raise _OtherTreeError(f"its tree is {base.tree[:12]}…, the manifest pins {pinned[:12]}…")
    known = record.refs.get(ref)
    if known not in (None, base.commit):
        raise _DamageError(f"{ref} is {base.commit[:12]}…, it was made as {str(known)[:12]}…")
    if record.files != now or known is None:
        _write_record(repo)
    return base


def _check_refs(repo: Path, ref: str) -> None:
    """Raise _DamageError (OSError if unreadable) unless needed branches hold an id."""
    for name in {UPSTREAM_REF, ref}:
        if not re.fullmatch(rb"[0-9a-f]{40}\n", (repo / name).read_bytes()):
            raise _DamageError(f"{name} holds no id of a commit")


def _check_digests(repo: Path, record: _BaselineRecord, now: Mapping[str, list[int]]) -> None:
    """Raise _DamageError for a file of objects that is gone or has a wrong digest."""
    if not now:
        raise _DamageError("it has no objects")
    for name in sorted({*record.digests, *now}):
        if name not in now:
            raise _DamageError(f"no {name}")
        known = record.digests.get(name)
        if (known is not None and compute_sha256(repo / name) != known) or not _is_whole(repo / name):
            raise _DamageError(f"{name} has other bytes than it was written with")


def _is_whole(path: Path) -> bool:
    """Return whether a file with objects has the SHA-1 that git gave it.

    A pack ends in it: the last 20 bytes; of a single object it is the name. https://git-scm.com/docs/gitformat-pack
    """
    if path.parent.name == "pack":
        if path.suffix == ".pack" and not path.with_suffix(".idx").is_file():
            return False
        with path.open("rb") as source:
            left = path.stat().st_size - 20
            digest = hashlib.sha1(usedforsecurity=False)
            while left > 0 and (data := source.read(min(left, 1 << 20))):
                digest.update(data)
                left -= len(data)
            return left == 0 and source.read() == digest.digest()
    try:
        data = zlib.decompress(path.read_bytes())
    except zlib.error:
        return False
    return hashlib.sha1(data, usedforsecurity=False).hexdigest() == path.parent.name + path.name


def _run_git(repo: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
    """Run git in a baseline that `_list_files` looked at.

    So nothing there is of others. Raises GitError.
    """
    doing = f"git {arguments[0]} in {repo}"
    return run_git(
        *WHOEVER_OWNS_IT, *arguments, cwd=repo, env={**(env or {}), "GIT_DIR": str(repo)}, stdin=stdin, doing=doing
    )


def _has_same_content(repo: Path, record: _BaselineRecord, now: Mapping[str, list[int]]) -> bool:
    """Return whether the files are those recorded.

    By size, time and inode, or by SHA-256 where only those differ. git sets the time of an object's file when it would
    write the object again (its freshen_file), also through the hard links of an applied tree: so another time is no
    sign of another content, and a hash costs much less than an fsck.
    """
    before, digests = record.files, record.digests
    if before.keys() != now.keys():
        return False
    other = [name for name in now if now[name] != before[name]]
    return all(now[name][:1] == before[name][:1] and compute_sha256(repo / name) == digests.get(name) for name in other)


class _BaselineRecord(Struct, frozen=True):
    """Record each file's size, time, inode and SHA-256, and the commit of each ref."""

    files: dict[str, list[int]] = {}
    digests: dict[str, str] = {}
    refs: dict[str, str] = {}


def _read_record(repo: Path) -> _BaselineRecord:
    """Read the record of ``repo``; empty when there is none that can be read."""
    try:
        return read_json(repo / _RECORD, _BaselineRecord, mend="", bound=1 << 20)
    except (FileNotFoundError, DecoupleError):
        return _BaselineRecord()


def _write_record(repo: Path) -> None:
    """Record files and refs; an unwritable cache costs time, never the baseline."""
    refs = {
        ref: _run_git(repo, "rev-parse", ref).decode().strip()
        for ref in (UPSTREAM_REF, DEBIAN_REF)
        if (repo / ref).exists()
    }
    with contextlib.suppress(OSError):
        files = _list_files(repo)
        known = _read_record(repo).digests if _has_same_content(repo, _read_record(repo), files) else {}
        digests = {name: known.get(name) or compute_sha256(repo / name) for name in files}
        write_atomically(repo / _RECORD, json.dumps({"files": files, "digests": digests, "refs": refs}) + "\n")


def _list_files(repo: Path) -> dict[str, list[int]]:
    """Return size, time and inode of each file with objects.

    Not the time of the inode, which hard links change. Raises _DamageError for anything else in the repository that we
    do not put there, OSError.
    """
    files: dict[str, list[int]] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(repo / folder) as listed:
            for entry in listed:
                name, info = f"{folder}{entry.name}", entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    pending.append(f"{name}/")
                elif not stat.S_ISREG(info.st_mode) or not _is_expected_file(repo, name, info.st_size):
                    raise _DamageError(f"{name} is none of its files, or not as it was written")
                elif _OBJECTS.fullmatch(name):
                    files[name] = [info.st_size, info.st_mtime_ns, info.st_ino]
    for name in _FIXED:
        (repo / name).stat()
    return files


def _is_expected_file(repo: Path, name: str, size: int) -> bool:
    """Return whether a file of the repository is one that we, or git for us, write."""
    if name in _FIXED:
        return size == len(_FIXED[name]) and (repo / name).read_bytes() == _FIXED[name]
    known = name in (_RECORD, UPSTREAM_REF, DEBIAN_REF)
    return known or bool(_OBJECTS.fullmatch(name) or _PASSING.fullmatch(name))


def _read_baseline(repo: Path, ref: str) -> Baseline:
    names = (f"{ref}^{{commit}}", f"{ref}^{{tree}}", f"{UPSTREAM_REF}^{{commit}}")
    commit, tree, upstream = _run_git(repo, "rev-parse", *names).decode().split()
    return Baseline(repo, commit, tree, upstream)


def _hash_listing(root: Path, listing: list[pristine.PristineFile]) -> str:
    digest = hashlib.sha256(os.fsencode(root.resolve()))
    for entry in listing:
        info = entry.info
        line = (entry.path, f"{entry.mode:o}", info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
        digest.update(f"{line}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _remove_leftovers(shelf: Path, identity: str) -> None:
    """Remove what killed runs left; only with the lock held."""
    for left in shelf.glob(f".{identity}.git.*"):
        remove_folder(left, ignore_errors=True)


def _make_message(manifest: Manifest) -> bytes:
    return f"upstream: PyTorch {manifest.version}\n\nTag: {manifest.tag}\nCommit: {manifest.commit}\n".encode()


def _build_repository(
    repo: Path, manifest: Manifest, tree: Path, listing: list[pristine.PristineFile] | None, progress: Progress
) -> None:
    repo.parent.mkdir(parents=True, exist_ok=True)
    mark_step("create the baseline's temporary repository")
    temporary = Path(tempfile.mkdtemp(prefix=f".{repo.name}.", dir=repo.parent))
    try:
        run_git("init", "--quiet", "--bare", "--template=", str(temporary), cwd=repo.parent)
        _import_files(
            temporary, UPSTREAM_REF, _make_message(manifest), tree, listing or pristine.list_entries(tree), progress
        )
        for name, data in _FIXED.items():
            write_atomically(temporary / name, data)
        _write_record(temporary)
        temporary.chmod(0o755)
        mark_step("rename the baseline into place")
        temporary.rename(repo)
    except BaseException:
        remove_folder(temporary, ignore_errors=True)
        raise


@contextlib.contextmanager
def _open_fast_import(repo: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``git fast-import`` on ``repo``.

    No deltas and light compression, because the pack is read far more than kept.
    """
    options = ("-c", "pack.compression=1", "-c", "core.compression=1", "-c", "fastimport.unpackLimit=0")
    with tempfile.TemporaryFile() as messages:
        process = start_git(
            [*options, "fast-import", "--quiet", "--depth=0", "--done"],
            cwd=repo,
            env={"GIT_DIR": str(repo)},  # else, where it is none yet, git takes the one that the cache lies in
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=messages,
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # git's own message follows below
                yield process
                process.stdin.write(b"done\n")
                process.stdin.close()
        except BaseException:
            process.kill()
            process.wait()
            raise
        if status := process.wait():
            messages.seek(0)
            answer = make_answer(status, b"", messages.read().decode(errors="replace"), repo)
            raise GitError(f"git fast-import in {repo}", answer, next_step="run again")


def _import_files(
    repo: Path, ref: str, message: bytes, tree: Path, listing: list[pristine.PristineFile], progress: Progress
) -> None:
    """Write one commit with the files of ``listing`` to ``ref``."""
    progress.start("git baseline", float(sum(entry.info.st_size for entry in listing)), "bytes")
    mark_step("import the tree")
    known = tree_record.read_known_files(tree)
    if known is not None:
        listing = [entry for entry in listing if not tree_record.is_leftover(entry.path, known)]
    missing = {path for path in known or () if not pristine.is_left_out(path.split("/"))}
    with _open_fast_import(repo) as process:
        assert process.stdin is not None
        write = process.stdin.write
        write(b"commit %s\ncommitter decouple <decouple@localhost> 0 +0000\n" % ref.encode())
        write(b"data %d\n%s\n" % (len(message), message))
        for entry in listing:
            path = f"{tree}/{entry.path}"
            if entry.mode == SYMLINK:
                data = os.fsencode(os.readlink(path))  # noqa: PTH115 - Path() would normalise the target
            else:
                with open(path, "rb") as source:  # noqa: PTH123 - fifteen thousand times
                    data = source.read()
            if known is not None:
                state = tree_record.format_state(entry.mode, hashlib.sha256(data).hexdigest())
                if known.get(entry.path) != state:
                    raise tree_record.make_change_error(tree / entry.path, tree)
            missing.discard(entry.path)
            name = quote_import_path(os.fsencode(entry.path))
            write(b"M %o inline %s\ndata %d\n" % (entry.mode, name, len(data)))
            write(data)
            write(b"\n")
            progress.advance(len(data))
        if missing:
            raise tree_record.make_change_error(tree / min(missing), tree)
    progress.finish()


def read_debian_series(folder: Path) -> list[tuple[Path, str]]:
    """Read ``debian/patches/series``: each patch with its strip option ("-p1").

    ``folder`` is the unpacked ``debian`` folder. Raises DecoupleError for a line that is not quilt syntax or a patch
    that is not there.
    """
    series = folder / "patches" / "series"
    listed = series_file.read_series(
        series, mend="leave --debian-patches out, or fetch again with --source debian"
    ).entries
    for entry in listed:
        if not (folder / "patches" / entry.name).is_file():
            raise DecoupleError(
                f"{series}:{entry.line}: no such patch: {entry.name}", next_step="fetch again with --source debian"
            )
    return [(folder / "patches" / entry.name, f"-p{entry.strip}") for entry in listed]


def _commit_debian_patches(repo: Path, manifest: Manifest, folder: Path, progress: Progress) -> None:
    """Commit Debian's folder and patches, each patch's context exactly as it stands."""
    tree_record.check_tree(folder)
    patches = read_debian_series(folder)
    with tempfile.TemporaryDirectory(prefix="decouple-index-") as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        mark_step("lay Debian's folder")
        listing = pristine.list_entries(folder)
        _run_git(repo, "read-tree", UPSTREAM_REF, env=env)
        _run_git(repo, "update-index", "-z", "--index-info", env=env, stdin=_store_blobs(repo, folder, listing))
        progress.start("Debian's patches", len(patches))
        before = _run_git(repo, "write-tree", env=env).decode().strip()
        for patch, strip in patches:
            mark_step(f"apply {patch.name}")
            try:
                _run_git(repo, "apply", "--cached", "--whitespace=nowarn", strip, str(patch), env=env)
            except GitError as error:
                step_on = f"Debian's patch {patch.name} belongs to another version; leave --debian-patches out"
                raise DecoupleError(error.what, next_step=error.next_step or step_on) from None
            after = _run_git(repo, "write-tree", env=env).decode().strip()
            if after == before:
                raise DecoupleError(
                    f"{patch}: git applied it, but nothing changed",
                    next_step="upstream may have it by now; leave --debian-patches out",
                )
            before = after
            progress.advance()
        progress.finish()
        message = f"debian: PyTorch {manifest.version}\n\nDebian's folder and its {len(patches)} patches.\n"
        parent = _run_git(repo, "rev-parse", UPSTREAM_REF).decode().strip()
        commit = _run_git(repo, "commit-tree", before, "-p", parent, env=_WHO, stdin=message.encode()).decode()
    mark_step("point at the commit with Debian's patches")
    _run_git(repo, "update-ref", DEBIAN_REF, commit.strip())


def _store_blobs(repo: Path, folder: Path, listing: list[pristine.PristineFile]) -> bytes:
    """Store the files of ``folder``; return index lines for them under ``debian/``."""
    plain = [entry for entry in listing if entry.mode != SYMLINK]
    names = "".join(f"{folder}/{entry.path}\n" for entry in plain)
    hashed = _run_git(repo, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=os.fsencode(names))
    lines = [
        b"%o %s\tdebian/%s\0" % (entry.mode, blob, os.fsencode(entry.path))
        for entry, blob in zip(plain, hashed.split(), strict=True)
    ]
    for entry in listing:
        if entry.mode == SYMLINK:
            target = os.fsencode((folder / entry.path).readlink())
            blob = _run_git(repo, "hash-object", "-w", "--no-filters", "--stdin", stdin=target).strip()
            lines.append(b"120000 %s\tdebian/%s\0" % (blob, os.fsencode(entry.path)))
    return b"".join(lines)
