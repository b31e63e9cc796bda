"""One census: every file of the tree is read once, those that can matter are parsed, in two processes."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import unreadable, walk
from decouple.base.git import ask, names
from decouple.base.progress import SILENT, Progress
from decouple.census import build_files, cpp, python
from decouple.census.context import ScannedTree
from decouple.census.finding import Census, Finding, Raw, identify
from decouple.census.taxonomy import Taxonomy

SKIPPED = (".git", "__pycache__", "build", "node_modules")
CHUNK = 120  # files per task: small enough that both processes end together


def files_of(tree: Path) -> list[str]:
    """The files of ``tree``: what git tracks, or all of them outside build folders when it is no git work tree.

    A link to a folder is none, nor is a pipe, whose reader may wait for ever.
    """
    found: list[str] = []
    if (tree / ".git").exists():
        listing = ask("ls-files", "-z", cwd=tree)
        if listing.status == 0 and listing.out:
            found = names(listing.out)
    found = found or [name for name, _ in walk(tree, lambda folder: folder.rpartition("/")[2] not in SKIPPED)]
    out = [name for name in found if not unreadable(f"{tree}/{name}")]
    if not out:
        raise DecoupleError(f"{tree}: no files", next_step="give the root of a PyTorch tree")
    return sorted(out)


def _belongs(path: str, context: ScannedTree) -> bool:
    """Whether the census looks at ``path``: what the project itself lays over the tree is no coupling of upstream's.

    Except ``third_device/added_to_core``, which the core wheel ships.
    """
    ours, shipped = path.startswith("third_device/"), path.startswith("third_device/added_to_core/")
    return not ours or shipped or path in context.origins


def scan(
    context: ScannedTree,
    taxonomy: Taxonomy,
    *,
    files: Sequence[str] | None = None,
    jobs: int = 2,
    progress: Progress = SILENT,
) -> Census:
    """Find, classify and judge every coupling of the tree. ``files`` limits it to some (for tests and measuring).

    Raises DecoupleError when the tree is empty; files that cannot be read are no sources and are passed over.
    """
    paths = [path for path in (files if files is not None else files_of(context.tree)) if _belongs(path, context)]
    chunks = [paths[at : at + CHUNK] for at in range(0, len(paths), CHUNK)]
    progress.start("census", float(len(paths)), "files")
    raws: list[Raw] = []
    worker = _Worker(context, taxonomy)
    if jobs <= 1 or len(chunks) <= 1:
        for chunk in chunks:
            raws += worker(chunk)
            progress.advance(len(chunk))
    else:
        with ProcessPoolExecutor(jobs, initializer=_adopt, initargs=(worker,)) as pool:
            for chunk, found in zip(chunks, pool.map(_run, chunks), strict=True):
                raws += found
                progress.advance(len(chunk))
    known = frozenset(paths)
    raws += _inter_file(context, known)
    findings = _judged(raws, context, taxonomy)
    progress.finish(f"{len(findings)} findings in {len(paths)} files")
    return Census(str(context.tree), findings, len(paths))


class _Worker:
    """Scans chunks of files; holds what does not change, so that a task is only a list of paths."""

    def __init__(self, context: ScannedTree, taxonomy: Taxonomy) -> None:
        self._context = context
        self._taxonomy = taxonomy

    def __call__(self, paths: Iterable[str]) -> list[Raw]:
        out: list[Raw] = []
        root = f"{self._context.tree}/"
        for path in paths:
            kind = _kind(path)
            if kind is None:
                continue
            try:
                with open(f"{root}{path}", "rb", buffering=0) as file:  # noqa: PTH123 - a Path for each file costs more
                    data = file.read()
            except OSError:
                continue
            if kind == "python" and not python.may_reach(data, self._taxonomy):
                continue
            if not self._taxonomy.interesting(data):
                continue
            text = data.decode("utf-8", "replace")
            if kind == "cpp":
                names = not self._context.moves(path)
                out += cpp.scan(path, text, self._taxonomy, self._context.moved_headers, names=names)
            elif kind == "python":
                out += python.scan(path, text, self._taxonomy)
            else:
                out += build_files.scan(path, text, self._taxonomy)
                if path.endswith(".py") and python.may_reach(data, self._taxonomy):
                    out += python.scan(path, text, self._taxonomy)
        return out


_worker: _Worker | None = None


def _adopt(worker: _Worker) -> None:
    """What a new process does first. Syntax trees hold no cycles, so looking for some would only slow their making."""
    global _worker
    _worker = worker
    gc.disable()


def _run(paths: list[str]) -> list[Raw]:
    assert _worker is not None
    return _worker(paths)


def _kind(path: str) -> str | None:
    if build_files.is_build_file(path):
        return "build"
    if path.endswith(cpp.SUFFIXES):
        return "cpp"
    if path.endswith(python.SUFFIXES):
        return "python"
    return None


def _inter_file(context: ScannedTree, paths: frozenset[str]) -> list[Raw]:
    """One finding for each file that is CUDA's as a whole, where it stands now."""
    here = {old: new for new, old in context.origins.items()}
    out = []
    for origin, kind in context.membership.items():
        path = here.get(origin, origin)
        if path in paths:
            out.append(Raw("inter-file", kind, path, 1, 1, 1, detail="the file as a whole is CUDA's"))
    return out


def _judged(raws: list[Raw], context: ScannedTree, taxonomy: Taxonomy) -> tuple[Finding, ...]:
    ordered = sorted(raws, key=lambda raw: (context.origin(raw.path), raw.line, raw.category, raw.symbol))
    pairs = [(raw, context.origin(raw.path)) for raw in ordered]
    out = []
    for (raw, origin), ident in zip(pairs, identify(pairs), strict=True):
        verdict, reason = _verdict(raw, origin, context, taxonomy)
        out.append(
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
                needs_cuda=raw.needs_cuda,
                detail=raw.detail,
                module=taxonomy.module(origin),
                stage=stage(raw.path, context),
                verdict=verdict,
                reason=reason,
            )
        )
    return tuple(out)


def stage(path: str, context: ScannedTree) -> str:
    """Who compiles or runs the file."""
    if context.moves(path):
        return "stage-2" if not path.endswith(".py") else "python"
    if path in context.stage1:
        return "codegen" if "/templates/" in path else "stage-1"
    if build_files.is_build_file(path):
        return "build"
    if path.startswith(("test/", "benchmarks/")) or "/test/" in path:
        return "test"
    return "python" if path.endswith((".py", ".pyi")) else "neither"


def _verdict(raw: Raw, origin: str, context: ScannedTree, taxonomy: Taxonomy) -> tuple[str, str]:
    if context.moves(raw.path):
        where = context.targets.get(raw.path, raw.path)
        return "moved", f"stands below {where.rpartition('/')[0]}"
    if raw.category == "inter-file":
        keep = context.keeps(origin)
        if keep:
            return "stays", keep
    if raw.category == "build" and raw.needs_cuda and build_files.is_of_every_build(origin):
        return "open", ""
    for rule in taxonomy.stays:
        if rule.covers(raw, origin):
            return "stays", rule.reason
    if raw.category in ("include", "name") and raw.detail.startswith(cpp.NVCC_ONLY):
        return "stays", "nvcc's branch of a header that both stages use; never compiled at stage 1"
    if raw.path not in context.stage1 and raw.category in ("macro", "include", "name", "dispatch"):
        return "stays", "not part of the stage-1 build"
    return "open", ""
