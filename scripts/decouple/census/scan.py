"""Scan a tree: read every file once, parse those that can matter.

Two processes do it.
"""

from __future__ import annotations

import errno
import gc
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import is_unreadable, walk_files
from decouple.base.git import split_names, try_git
from decouple.base.progress import SILENT, Progress
from decouple.census import build_files, cpp, python
from decouple.census.context import ScannedTree
from decouple.census.finding import Census, Finding, RawFinding, identify_findings
from decouple.census.taxonomy import Taxonomy
from decouple.syntax.globs import find_match
from decouple.syntax.preprocessor import CPP_SUFFIXES

_SKIPPED = ("__pycache__", "node_modules")
_BUILD = "build"
"""The build folder at the root of a tree; others of that name are upstream's, such as ``tools/build``."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
CHUNK = 120  # files per task: small enough that both processes end together
_LEFT = "the rules move it, and it stands here"


def list_tree_files(tree: Path) -> list[str]:
    """Return the files of ``tree`` outside its build folder.

    In a git work tree those that git tracks or is not told to ignore: the build globs new files, too. A link to a
    folder is none, nor is a pipe, whose reader may wait for ever. Raises DecoupleError when there are none.
    """
    listed: set[str] = set()
    if (tree / ".git").exists():
        skipped = [f"--exclude={pattern}/" for pattern in (f"/{_BUILD}", *_SKIPPED)]
        listing = try_git("ls-files", "-z", "--cached", "--others", "--exclude-standard", *skipped, cwd=tree)
        if listing.status == 0:
            listed.update(split_names(listing.out))
    listed = listed or {name for name, _ in walk_files(tree, _is_entered)}
    files = [name for name in listed if not is_unreadable(f"{tree}/{name}")]
    if not files:
        raise DecoupleError(f"{tree}: no files", next_step="give the root of a PyTorch tree")
    return sorted(files)


def _is_entered(folder: str) -> bool:
    return folder != _BUILD and folder.rpartition("/")[2] not in (".git", *_SKIPPED)


def _is_in_scope(path: str, context: ScannedTree) -> bool:
    """Return whether the census looks at ``path``.

    What the project itself lays over the tree is no coupling of upstream's, except ``third_device/added_to_core``,
    which the core wheel ships.
    """
    is_overlay, is_shipped = path.startswith("third_device/"), path.startswith("third_device/added_to_core/")
    return not is_overlay or is_shipped or path in context.origins


def scan_tree(
    context: ScannedTree,
    taxonomy: Taxonomy,
    *,
    files: Sequence[str] | None = None,
    jobs: int = 2,
    progress: Progress = SILENT,
) -> Census:
    """Find, classify and judge every coupling of the tree.

    ``files`` limits it to some (for tests and measuring). Raises DecoupleError when the tree is empty, or a file of it
    cannot be read.
    """
    paths = [
        path for path in (files if files is not None else list_tree_files(context.tree)) if _is_in_scope(path, context)
    ]
    context = _view_for_vendor(context, taxonomy, paths)
    chunks = [paths[start : start + CHUNK] for start in range(0, len(paths), CHUNK)]
    progress.start("census", float(len(paths)), "files")
    raws: list[RawFinding] = []
    worker = _ChunkScanner(context, taxonomy)
    pool = _open_pool(jobs, worker) if jobs > 1 and len(chunks) > 1 else None
    if pool is None:
        for chunk in chunks:
            raws += worker(chunk)
            progress.advance(len(chunk))
    else:
        with pool:
            for chunk, chunk_findings in zip(chunks, pool.map(_scan_chunk, chunks), strict=True):
                raws += chunk_findings
                progress.advance(len(chunk))
    present = frozenset(paths)
    raws += _report_whole_files(context, present, taxonomy)
    findings = _judge_findings(raws, context, taxonomy)
    progress.finish(f"{len(findings)} findings in {len(paths)} files")
    return Census(str(context.tree), findings, len(paths), taxonomy.vendor, taxonomy.title)


def _open_pool(jobs: int, worker: _ChunkScanner) -> ProcessPoolExecutor | None:
    """Open a pool of processes, or return None where there can be none.

    Its locks are files in /dev/shm, which a chroot may lack and a container may have read-only.
    """
    try:
        return ProcessPoolExecutor(jobs, initializer=_initialize_worker, initargs=(worker,))
    except OSError:
        return None


def _view_for_vendor(context: ScannedTree, taxonomy: Taxonomy, paths: Sequence[str]) -> ScannedTree:
    """Return the tree with the files and headers that are this vendor's.

    CUDA's are what relocation moves. Another vendor's files are told by its taxonomy, and a header that moves is
    CUDA's, whoever includes it.
    """
    if not taxonomy.files:
        return context
    origins = (context.find_origin(path) for path in paths)
    members = {origin: "directory" for origin in origins if find_match(origin, taxonomy.files) is not None}
    return replace(context, membership=members, moved_headers=frozenset())


class _ChunkScanner:
    """Scans chunks of files.

    It holds what does not change, so that a task is only a list of paths.
    """

    def __init__(self, context: ScannedTree, taxonomy: Taxonomy) -> None:
        self._context = context
        self._taxonomy = taxonomy

    def __call__(self, paths: Iterable[str]) -> list[RawFinding]:
        findings: list[RawFinding] = []
        root = f"{self._context.tree}/"
        for path in paths:
            kind = _find_scanner(path)
            if kind is None:
                continue
            data = _read_file(f"{root}{path}")
            if kind == "python":  # not every binding has a word of the vendor's in it
                wanted = python.may_access_binding(data, self._taxonomy)
            else:
                wanted = self._taxonomy.may_hold_finding(data)
            if not wanted:
                continue
            text = data.decode("utf-8", "replace")
            if kind == "cpp":
                names = not self._context.is_whole(path)
                findings += cpp.scan_cpp(path, text, self._taxonomy, self._context.moved_headers, names=names)
            elif kind == "python":
                findings += python.scan_python(path, text, self._taxonomy)
            else:
                findings += build_files.scan_build_file(path, text, self._taxonomy)
                if path.endswith(".py") and python.may_access_binding(data, self._taxonomy):
                    findings += python.scan_python(path, text, self._taxonomy)
        return findings


def _read_file(path: str) -> bytes:
    """Read a file; b"" where git lists one that is gone, or a link to none.

    Raises DecoupleError for one that is there and cannot be read: the count would be too low.
    """
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path for each file costs more
            return file.read()
    except OSError as error:
        if error.errno in _GONE:
            return b""
        raise DecoupleError(
            f"{path}: {error.strerror}", next_step="make it readable, or delete it: the census counts every file"
        ) from None


_worker: _ChunkScanner | None = None


def _initialize_worker(worker: _ChunkScanner) -> None:
    """Initialize a new process.

    Syntax trees hold no cycles, so looking for some would only slow their making.
    """
    global _worker
    _worker = worker
    gc.disable()


def _scan_chunk(paths: list[str]) -> list[RawFinding]:
    assert _worker is not None
    return _worker(paths)


def _find_scanner(path: str) -> str | None:
    if build_files.is_build_file(path):
        return "build"
    if path.endswith(CPP_SUFFIXES):
        return "cpp"
    if path.endswith(python.SUFFIXES):
        return "python"
    return None


def _report_whole_files(context: ScannedTree, paths: frozenset[str], taxonomy: Taxonomy) -> list[RawFinding]:
    """Return one finding for each file that is all the vendor's, at its path now.

    One that moved and stands at its old place, too, has two.
    """
    current_paths = {old: new for new, old in context.origins.items()}
    findings = []
    for origin, kind in context.membership.items():
        detail = f"the file as a whole is {taxonomy.title}'s"
        places = sorted({origin, current_paths.get(origin, origin)} & paths)
        findings += [RawFinding("inter-file", kind, path, 1, 1, 1, detail=detail) for path in places]
    return findings


def _judge_findings(raws: list[RawFinding], context: ScannedTree, taxonomy: Taxonomy) -> tuple[Finding, ...]:
    ordered = sorted(raws, key=lambda raw: (context.find_origin(raw.path), raw.line, raw.category, raw.symbol))
    pairs = [(raw, context.find_origin(raw.path)) for raw in ordered]
    findings = []
    for (raw, origin), ident in zip(pairs, identify_findings(pairs), strict=True):
        verdict, reason = _find_verdict(raw, origin, context, taxonomy)
        findings.append(
            Finding(
                id=ident,
                category=raw.category,
                symbol=raw.symbol,
                path=raw.path,
                origin=origin,
                line=raw.line,
                end_line=raw.end_line,
                lines=raw.lines,
                count=raw.count,
                needs_vendor=raw.needs_vendor,
                detail=raw.detail,
                module=taxonomy.find_module(origin),
                stage=find_stage(raw.path, context),
                verdict=verdict,
                reason=reason,
            )
        )
    return tuple(findings)


def find_stage(path: str, context: ScannedTree) -> str:
    """Return who compiles or runs the file."""
    if context.is_moved(path):
        return "stage-2" if not path.endswith(".py") else "python"
    if path in context.stage1:
        return "codegen" if "/templates/" in path else "stage-1"
    if build_files.is_build_file(path):
        return "build"
    if path.startswith(("test/", "benchmarks/")) or "/test/" in path:
        return "test"
    return "python" if path.endswith((".py", ".pyi")) else "neither"


def _find_verdict(raw: RawFinding, origin: str, context: ScannedTree, taxonomy: Taxonomy) -> tuple[str, str]:
    if context.is_moved(raw.path):
        target = context.targets.get(raw.path, raw.path)
        return "moved", f"stands below {target.rpartition('/')[0]}"
    if raw.category == "inter-file" and raw.path in context.left:
        return "open", _LEFT
    if raw.category == "inter-file":
        keep_reason = context.find_keep_reason(origin)
        if keep_reason:
            return "stays", keep_reason
    if raw.category == "build" and raw.needs_vendor and build_files.is_in_every_build(origin):
        return "open", ""
    for rule in taxonomy.stays:
        if rule.covers(raw, origin):
            return "stays", rule.reason
    if raw.category in ("include", "name") and raw.detail.startswith(cpp.DEVICE_ONLY):
        return "stays", f"{taxonomy.compiler}'s branch of a header that both stages use; never compiled at stage 1"
    if raw.path not in context.stage1 and raw.category in ("macro", "include", "name", "dispatch"):
        return "stays", "not part of the stage-1 build"
    return "open", _LEFT if raw.path in context.left else ""
