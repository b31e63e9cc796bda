"""Build a wheel in steps that may be interrupted; the next run goes on."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, hold_lock
from decouple.base.mounts import remove_tree
from decouple.base.process import run_logged
from decouple.base.progress import SILENT, Progress
from decouple.base.untrusted_input import is_count
from decouple.build import (
    effort,
    inputs,
    object_times,
    remote_cache,
    settings,
    shards,
    toolchain,
    toolkits,
    tree_status,
    wheel_finishing,
)
from decouple.build.effort import Effort
from decouple.build.environment import Environment, read_output
from decouple.build.estimate import count_cores, count_objects
from decouple.build.options import Choices, Provenance
from decouple.build.settings import Cost
from decouple.release.wheel_manifest import OverlayContent, SeriesContent, WheelManifest
from decouple.release.wheel_name import WheelName

HOW = ("MAX_JOBS", "CCACHE_MAXSIZE", "CCACHE_DEPEND", "DECOUPLE_SECONDS", *remote_cache.VARIABLES)
"""Variables on which no wheel depends."""
_INCLUDE = "CMAKE_PROJECT_Torch_INCLUDE"
_OBJECT = re.compile(r"Building \S+ object (\S+)$")
_STATUS = re.compile(r"^\s*\[(\d+)/(\d+)[ \]]")


class StageWheel(Struct, frozen=True):
    """Hold a stage's wheel; ``built`` is False when it was up to date.

    Effort and objects are of the last build.
    """

    stage: int
    wheel: Path
    built: bool
    effort: Effort
    objects: int

    def format_line(self) -> str:
        """Say in a line for the user what was done, and the wheel."""
        size, minutes = self.wheel.stat().st_size / (1 << 20), self.effort.seconds / 60
        did = "built" if self.built else "up to date"
        made = f"{size:.1f} MiB, {self.objects} objects, {minutes:.1f} min"
        return f"stage {self.stage}: {did}: {self.wheel} ({made})"


class ShardResult(Struct, frozen=True):
    """Hold what one machine compiled of a stage: ``objects`` of ``total``, and effort.

    The effort is how long that took, configuring apart. ``expected`` core-seconds of its objects and of all of them, as
    far as they are known.
    """

    stage: int
    shard: shards.ObjectShard
    objects: int
    total: int
    effort: Effort
    expected: tuple[float, float]


class BuildJob(Struct, frozen=True):
    """Say where, of what and as chosen to build; ``progress`` and ``say`` report."""

    environment: Environment
    provenance: Provenance
    choices: Choices
    progress: Progress = SILENT
    say: Callable[[str], None] = lambda _: None


class Stage(ABC):
    """Build a stage: check the inputs, write the manifest, finish the wheel, stamp.

    A stage of its own says what it is (``number``, ``project``, ``version``) and how its wheel is made (``make``).
    """

    number: int
    project: str
    level = wheel_finishing.LEVEL
    """Zlib's, that the wheel is compressed with."""

    def __init__(self, job: BuildJob) -> None:
        self.job, self.environment, self.places = job, job.environment, job.environment.places
        self.names = job.environment.name_places()
        self.facts = settings.find_stage(self.number)
        self.variables = toolchain.make_variables(job.environment, self.number, job.provenance, job.choices)
        self.log = self.places.logs / f"stage{self.number}.log"
        self.core = ""
        """The SHA-256 of the wheel of our core that it is compiled against."""
        self.held: tuple[int, ...] = ()
        """The lock of a build under way: what it starts holds it too."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version that the wheel is made for."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where its objects lie."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare and configure, as far as that is not done."""

    @abstractmethod
    def make_raw_wheel(self) -> Path:
        """Compile and pack what is ready: the wheel as the project's own packing left it."""

    @abstractmethod
    def describe_stage(self) -> dict[str, Any]:
        """Return what the manifest says of this stage: ``flags``, and stage 2's CUDA."""

    @contextlib.contextmanager
    def hold_inputs(self) -> Iterator[tuple[int, ...]]:
        """Hold what others could exchange meanwhile.

        Yields the locks that what is started holds too.
        """
        yield ()

    def identify_core(self) -> str:
        """Return what identifies the core wheel that it builds against.

        "" where that does not count.
        """
        return ""

    def list_layers(self) -> Sequence[str]:
        """Return the layers of a root that it is built with."""
        return toolchain.list_layers(self.number, self.job.choices, self.environment.kind)

    def find_python(self) -> str:
        """Return the command of the Python that the wheel is for."""
        return toolchain.choose_interpreter(self.number, self.job.choices, self.environment.kind).python

    @functools.cached_property
    def own_toolchain(self) -> dict[str, Any]:
        """What it is made with, asked once."""
        return self.describe_toolchain()

    def describe_toolchain(self) -> dict[str, Any]:
        """Describe what it is made with, by `toolchain.describe_toolchain`."""
        return self._ask_toolchain(self.number)

    def _ask_toolchain(self, number: int) -> dict[str, Any]:
        """Describe what is used of the programs of stage ``number``."""
        return toolchain.describe_toolchain(
            self.environment, number, self.list_layers(), self.variables, self.find_python()
        )

    def build_wheel(self) -> StageWheel:
        """Make the stage's wheel in ``dist`` unless it is up to date.

        Raises DecoupleError naming the failing step.
        """
        state, say, name = self.places.state, self.job.say, f"stage {self.number}"
        stamp_path, effort_path = state / f"stage{self.number}.json", state / f"stage{self.number}.effort"
        lock = self.places.locks / f"stage{self.number}.lock"
        busy = functools.partial(say, f"{name}: waits for another run that builds it")
        with hold_lock(lock, busy) as held, self.hold_inputs() as inputs_held:
            self.held = (held, *inputs_held)
            unread = toolkits.list_unread_paths(self.number, self.job.choices.toolkit)
            series_tree = self.job.provenance.series_tree or "HEAD"
            # here, as others may move the tree before; of what it reads, else the wheel would name an edit for ever
            tree, dirty = inputs.read_tree_state(self.places.tree, series_tree, unread)
            self._refuse_other_tree(tree)
            relevant = {name: value for name, value in self.variables.items() if name not in HOW}
            content = inputs.hash_tree_content(self.places.tree, unread)
            pins = toolchain.list_pins(self.environment, self.list_layers())
            digest = inputs.compute_digest(
                {
                    "content": content,
                    "series": self.job.provenance.series_digest,  # stands in the wheel
                    "toolchain": self.own_toolchain,
                    "variables": relevant,
                    "included": self._hash_included_file(),
                    "version": self.version,
                    "core": self.identify_core(),
                    **({"pins": pins} if pins else {}),  # a stage without any keeps the digest that it had
                }
            )
            stamp = inputs.find_current_stamp(stamp_path, digest, self.places.dist)
            if stamp:
                if stamp.core != self.core:  # of an earlier version, which did not note it: it is in the digest
                    inputs.write_stamp(stamp_path, replace(stamp, core=self.core))
                wheel = self.places.dist / stamp.wheel
                return StageWheel(self.number, wheel, False, Effort(stamp.seconds), stamp.objects)
            say(f"{name}: building, log {self.log}")
            began, before = time.monotonic(), effort.read_counters(self.environment, self.variables)
            try:
                with self._keep_tree_clean() as noted:
                    self.held += noted
                    self.prepare()
                    raw = self.make_raw_wheel()
            finally:  # an interrupted run's time counts too
                after = effort.read_counters(self.environment, self.variables)
                took = effort.accumulate_effort(
                    effort_path, digest, effort.measure_effort(time.monotonic() - began, before, after)
                )
            epoch = int(self.variables["SOURCE_DATE_EPOCH"])
            provenance = self.job.provenance
            manifest = WheelManifest(
                release=self.places.release,
                project=self.project,
                version=WheelName.parse(raw.name).version,
                upstream=provenance.upstream,
                sources=(*provenance.sources, *self.job.choices.wheels),
                series=SeriesContent(provenance.series_digest, provenance.patches),
                overlay=OverlayContent(provenance.overlay_digest),
                tree=f"{tree}+{dirty[:12]}" if dirty else tree,
                toolchain=self.own_toolchain | {"inputs": self.environment.describe_inputs(self.list_layers())},
                environment=dict(sorted(relevant.items())),
                # How long it took differs each time; it stands in the stamp and ci/status, so that wheels can be equal.
                times={"source_date_epoch": epoch},
                **self.describe_stage(),
            )
            wheel = wheel_finishing.finish_wheel(raw, self.places.dist, manifest, epoch, self.level)
            objects = count_objects(self.folder)
            stamp = inputs.Stamp(digest, wheel.name, compute_sha256(wheel), took.seconds, objects, content, self.core)
            inputs.write_stamp(stamp_path, stamp)
            effort_path.unlink(missing_ok=True)  # finished: the next build starts counting anew
        return StageWheel(self.number, wheel, True, took, objects)

    def _refuse_other_tree(self, tree: str) -> None:
        """Raise DecoupleError where the provenance was read of another tree.

        The wheel's manifest would name an overlay that it was not compiled from.
        """
        if self.job.provenance.tree not in ("", tree):
            raise DecoupleError(
                f"{self.places.tree}: its HEAD moved since this run began, before stage {self.number}",
                next_step="run the same command again; it builds what the tree has now",
            )

    def _hash_included_file(self) -> str:
        """Return the SHA-256 of our file that upstream's CMake includes.

        A variable only names it. "" where there is none.
        """
        named = self.variables.get(_INCLUDE, "")
        inside = self.names["project"]
        path = self.places.project / named.removeprefix(f"{inside}/") if named.startswith(f"{inside}/") else Path(named)
        return compute_sha256(path) if named and path.is_file() else ""

    def compile_shard(self, shard: shards.ObjectShard) -> ShardResult:
        """Compile ``shard`` of the objects and pack nothing.

        Objects are cut by the seconds of each as far as they are known. Raises DecoupleError naming the failing step.
        """
        say, name = self.job.say, f"stage {self.number}, shard {shard}"
        lock = self.places.locks / f"stage{self.number}.lock"
        busy = functools.partial(say, f"{name}: waits for another run that builds it")
        with hold_lock(lock, busy) as held, self.hold_inputs() as inputs_held, self._keep_tree_clean() as noted:
            self.held = (held, *inputs_held, *noted)
            say(f"{name}: building, log {self.log}")
            self.prepare()
            began, before = time.monotonic(), effort.read_counters(self.environment, self.variables)
            weights = self._estimate_seconds()
            chosen = shards.cut_objects(weights, shard.of)[shard.number - 1]
            if chosen:
                self.compile_targets(*chosen)
            after = effort.read_counters(self.environment, self.variables)
            took = effort.measure_effort(time.monotonic() - began, before, after)
        expected = (sum(weights[target] for target in chosen), sum(weights.values()))
        return ShardResult(self.number, shard, len(chosen), len(weights), took, expected)

    def describe_origin(self) -> dict[str, Any]:
        """Describe what its objects depend on and ninja does not see."""
        return self.own_toolchain

    def find_other_compilers(self) -> str:
        """Return why the objects there are of another toolchain, "" where they are not.

        It reads behind "the objects in a folder".
        """
        other = toolchain.find_other_compilers(self.folder, self.describe_origin())
        return f"were compiled with {other}" if other else ""

    def _keep_tree_clean(self) -> AbstractContextManager[tuple[int, ...]]:
        return tree_status.keep_clean(self.places.tree, f"stage{self.number}", self.job.say)

    def run_step(
        self, what: str, command: Sequence[str], start: str, on_line: Callable[[str], None] = lambda _: None
    ) -> None:
        """Run one step of the stage into its log, in folder ``start``.

        Raises DecoupleError with its telling line.
        """
        self.job.progress.start(what, None, "objects")
        argv = self.environment.argv(command, self.variables, start)
        try:
            run_logged(argv, log=self.log, what=what, on_line=on_line, held=self.held)
        except BaseException:
            self.job.progress.finish("stopped")  # no bar of a step that failed goes on
            raise
        self.job.progress.finish()

    def compile_targets(self, *targets: str) -> None:
        """Run ninja through wrapped_cmake: limits from memory, second tries."""
        folder = self.names[f"stage{self.number}"]
        expected = self._estimate_seconds()
        asked = expected.keys() & set(targets) or expected.keys()
        left = {name: expected[name] for name in asked if not (self.folder / name).exists()}
        usual = self.estimate_cost()
        # as the estimate has it, shared out by what each object takes; of all objects' seconds those of the left ones
        cores = self.job.choices.jobs or count_cores()
        took = usual.core_seconds * sum(left.values()) / sum(expected.values()) / cores
        toolkit = f"{self.names['project']}/third_device/tools/wrapped_cmake"
        command = [self.find_python(), toolkit, "build", folder, *targets, "--raw"]  # the root's own may read no TOML
        name = f"stage {self.number}"
        measured = NinjaLogReader(
            self.folder, took * (self.job.choices.jobs or count_cores()) / (sum(left.values()) or 1.0)
        )
        follow = _NinjaProgress(self.job.progress, name, self.job.say, left, took, measured)
        self.run_step(f"compile {name}", command, folder, follow)

    def estimate_cost(self) -> Cost:
        """Estimate what all of the stage takes when nothing of it is there."""
        choices, kind = self.job.choices, self.environment.kind
        return object_times.estimate_stage_cost(self.places.release, kind, self.number, choices)

    def _estimate_seconds(self) -> dict[str, float]:
        """Return object -> the core-seconds that it is expected to take.

        As objects of its kind did in an earlier build, else the usual mean.
        """
        folder = self.names[f"stage{self.number}"]
        database = read_output(self.environment, ["ninja", "-C", folder, "-t", "compdb"], self.variables)
        known = object_times.load_nearest(self.places.release, self.environment.kind, self.number)
        objects = shards.parse_objects(database or "", folder)
        return {name: known.estimate_object(name, self.facts.object_seconds) for name in objects}

    def pack_wheel(self, command: Sequence[str], start: str) -> Path:
        """Run ``command`` with the folder that it is to leave one wheel in.

        Returns that wheel.
        """
        raw = self.places.raw / f"stage{self.number}"
        remove_tree(raw)
        raw.mkdir(parents=True)
        self.run_step(f"wheel of stage {self.number}", [*command, f"{self.names['raw']}/stage{self.number}"], start)
        found = sorted(raw.glob("*.whl"))
        if len(found) != 1:
            raise DecoupleError(f"{raw}: {len(found)} wheels, expected one", next_step="run the same command again")
        return found[0]


class NinjaLogReader:
    """Read what each object took while ninja runs, from its log in ``folder``.

    The log's lines have start and end in ms. ``scale``: how many seconds one of the expected ones is by the estimate.
    """

    def __init__(self, folder: Path, scale: float = 1.0) -> None:
        self._log, self._scale = folder / ".ninja_log", scale or 1.0
        self._offset = self._log.stat().st_size if self._log.exists() else 0

    def read_new(self) -> dict[str, float]:
        """Map each output that is new in the log to what it took, in expected seconds."""
        try:
            with self._log.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:  # ninja wrote it anew, with the newest of each output
                    self._offset = file.tell()
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return {}
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = (line.split("\t") for line in whole.decode(errors="replace").splitlines())
        return {
            row[3]: (int(row[1]) - int(row[0])) / 1000 / self._scale
            for row in rows
            if len(row) == 5 and is_count(row[0]) and is_count(row[1])
        }


class _NinjaProgress:
    """Turn ninja's status lines into progress; pass on wrapped_cmake's warnings.

    wrapped_cmake says when a compiler was killed. Each object weighs the core-seconds that it is ``expected`` to take;
    all of them take ``seconds`` of wall time.
    """

    def __init__(
        self,
        progress: Progress,
        what: str,
        say: Callable[[str], None],
        expected: Mapping[str, float],
        seconds: float,
        measured: NinjaLogReader | None = None,
    ) -> None:
        self._progress, self._what, self._say, self._left = progress, what, say, dict(expected)
        self._seconds, self._measured = seconds, measured
        self._unmeasured: dict[str, float] = {}
        """Objects that are done, of which is not known yet what they took."""
        self._took: dict[str, float] = {}
        """What outputs took that are not known to be done: ninja's log is often read before the line that says it."""
        self._done = 0
        self._total: int | None = None

    def __call__(self, line: str) -> None:
        match = _STATUS.search(line)
        if match is None:
            if "wrapped_cmake: " in line and "killed" in line:
                self._say(line.strip())
            return
        done, total = int(match[1]), int(match[2])
        if total * 10 < len(self._left):
            return  # CMake runs once more, which ninja counts alone
        if total != self._total:
            # a second try counts anew, of what the first one left
            effort = sum(self._left.values())
            self._progress.start(self._what, total, "objects", effort, self._seconds if effort else None)
            self._done, self._total = 0, total
        if done > self._done:
            built = _OBJECT.search(line)
            expected = self._left.pop(built[1], 0.0) if built else 0.0
            if built:
                self._unmeasured[built[1]] = expected
            self._progress.advance(done - self._done, expected, self._read_measured())
            self._done = done

    def _read_measured(self) -> tuple[float, float] | None:
        """Return what ninja's newly logged objects were expected to take, and took."""
        self._took |= self._measured.read_new() if self._measured else {}
        known = {name: self._unmeasured.pop(name) for name in self._took if name in self._unmeasured}
        return (sum(known.values()), sum(self._took.pop(name) for name in known)) if known else None
