"""The jobs of a CI host, from ``ci/matrix.toml``.

Stage 1 comes once per release and Python, stage 2 once per CUDA version on top of it, then the checks of each pair.
With shards, machines that compile a slice of a stage each come before it.

Plain Python, so that a host expands the matrix with nothing installed.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE = Path("scripts/decouple/build")
ROOTS = {"rootfs": "rootfs-trixie.toml", "portable": "rootfs-bullseye.toml"}
STAGES = ("core-shards", "core", "cuda-shards", "cuda", "verify", "contract")
PUBLISHED = "portable"
"""The environment whose wheels are served; those of others are of one distribution, under the same version."""
OBJECTS = "build/objects"
"""The folder, in the checkout, in which shards leave what they compiled (`decouple build --cache file:`)."""
_OFFICIAL = "build/official"  # a virtual environment with the official torch, which portable wheels are compared with


class MatrixError(Exception):
    """The matrix names something that cannot be built; the text names entry and key."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Minutes of a job, and how many are left for saving what the build has so far."""

    job_minutes: int
    spare_minutes: int


@dataclasses.dataclass(frozen=True)
class Job:
    """One job of a CI host.

    ``commands`` run in the checkout, one after the other; ``cache`` names the ccache that the job shares with other
    runs. ``needs`` are the jobs whose wheels it takes, ``shards`` those whose objects. What a job hands over are
    ``paths`` (relative to the checkout): a shard its objects, a stage its wheel and the stamp by which the next stage
    finds it (that of torch_cuda says which core it was compiled against), the contract its report, and verify nothing:
    its verdict is how it ends. Of what they record in their checkout nobody makes one file. A host ends the job after
    ``minutes``; the commands are to be ended after ``build_minutes``, so that the cache can still be saved and the next
    run goes on from there.
    """

    name: str
    stage: str
    release: str
    python: str
    needs: tuple[str, ...]
    shards: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    cache: str
    paths: tuple[str, ...]
    minutes: int
    build_minutes: int
    published: bool


@dataclasses.dataclass(frozen=True)
class Buildable:
    """What can be built of a release.

    That is its version, and for each environment the CUDA versions and the Pythons, the root's own first.
    """

    version: str
    cuda: dict[str, tuple[str, ...]]
    python: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, release: str, root: Path) -> Buildable:
        """Read a release from ``series/<release>.toml`` and what says how it is built.

        Raises OSError, MatrixError.
        """
        manifest = _read_table(root / "series" / f"{release}.toml")
        toolchain = manifest.get("toolchain", {})
        if not toolchain.get("cuda"):
            raise MatrixError(f"{release}.toml: toolchain.cuda: not known, so there is nothing to build stage 2 with")
        usual = (toolchain["cuda"],)
        compiled = _read_table(root / PACKAGE / "toolkits.toml")["releases"].get(release, ())
        more = _read_table(root / PACKAGE / "stages.toml")["portable"]["interpreters"]
        own = {env: _read_own_python(root / PACKAGE / name) for env, name in ROOTS.items()}
        return cls(
            version=manifest["version"],
            cuda={"rootfs": usual, "host": usual, "portable": tuple(compiled)},
            python={
                "rootfs": (own["rootfs"],),
                "host": tuple(toolchain.get("python", ())),
                "portable": (own["portable"], *more),
            },
        )


def expand_matrix(matrix: Path = HERE / "matrix.toml", root: Path = HERE.parent) -> list[Job]:
    """Return all jobs, in an order in which they could run one by one.

    ``root`` is the checkout. Raises MatrixError.
    """
    document = _read_table(matrix)
    limits = Limits(**{name: int(value) for name, value in document["limits"].items()})
    jobs: list[Job] = []
    for number, entry in enumerate(document.get("build", [])):
        build = _Entry.read(entry, f"{matrix.name}: build[{number}]", root, limits)
        jobs += [job for python in build.pythons for job in build.list_jobs(python)]
    names = [job.name for job in jobs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise MatrixError(f"{matrix.name}: {', '.join(repeated)}: named by two entries")
    return jobs


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One ``[[build]]``."""

    release: str
    env: str
    pythons: tuple[str, ...]
    cuda: dict[str, list[str]]
    revision: int
    shards: int
    can: Buildable
    limits: Limits

    @classmethod
    def read(cls, entry: dict[str, Any], where: str, root: Path, limits: Limits) -> _Entry:
        missing = {"release", "env", "python", "cuda"} - set(entry)
        if missing:
            raise MatrixError(f"{where}: {', '.join(sorted(missing))}: missing")
        release, env = str(entry["release"]), str(entry["env"])
        if not (root / "series" / release).is_file():
            raise MatrixError(f"{where}: release {release}: there is no series/{release}")
        can = Buildable.read(release, root)
        for key, asked, offered in (("python", entry["python"], can.python), ("cuda", entry["cuda"], can.cuda)):
            for wanted in asked:
                if wanted not in offered.get(env, ()):
                    has = ", ".join(offered.get(env, ())) or "nothing"
                    raise MatrixError(f"{where}: {key} {wanted}: environment {env!r} builds {release} for {has}")
        revision, shards = int(entry.get("revision", 0)), int(entry.get("shards", 0))
        return cls(release, env, tuple(entry["python"]), entry["cuda"], revision, shards, can, limits)

    def list_jobs(self, python: str) -> Iterator[Job]:
        """Yield the core, and for each CUDA version its wheel and the checks of both.

        Before the first Python's come the shards: nearly all objects are the same for all Pythons.
        """
        suffix = f"{self.release}-{self.env}-py{python}"
        core, sliced = f"core-{suffix}", python == self.pythons[0]
        first = f"{self.release}-{self.env}-py{self.pythons[0]}"
        stage1 = (*self._list_build_words(python), "--stage", "1")
        shards = self._name_shards(f"core-{first}")
        if sliced:
            yield from self._list_slices("core-shards", python, stage1, shards, ())
        base = self._locate_folder(python)
        handed = (self._locate_wheels(""), f"{base}/state/stage1.json")
        yield self._make_job(
            "core", core, python, (), (*stage1, *self._list_cache_words()), shards=shards, paths=handed
        )
        for version, architectures in self.cuda.items():
            cuda = f"cu{version.replace('.', '')}"
            name = f"{cuda}-{suffix}"
            words = (*self._list_build_words(python), "--stage", "2", *self._list_cuda_words(version))
            stage2 = (*words, "--arch", ";".join(architectures))
            shards = self._name_shards(f"{cuda}-{first}")
            if sliced:
                yield from self._list_slices("cuda-shards", python, stage2, shards, (core,))
            made = f"{base}/{self.env}-cuda{version}" if self._list_cuda_words(version) else base
            handed = (self._locate_wheels("_cuda"), f"{made}/state/stage2.json")
            yield self._make_job(
                "cuda", name, python, (core,), (*stage2, *self._list_cache_words()), shards=shards, paths=handed
            )
            yield from self._list_checks(python, core, name, version)

    def _list_checks(self, python: str, core: str, cuda: str, version: str) -> Iterator[Job]:
        verify = ("nox", "-s", f"verify-{self.release}", "--", "--env", self.env)
        needs = (core, cuda)
        if self.env == "portable":
            # --clear: on one machine the job before made it, perhaps for another Python
            make = ("uv", "venv", "--clear", "--seed", "--python", python, _OFFICIAL)
            fill = ("uv", "pip", "install", "--python", _OFFICIAL, f"torch=={self.can.version}", "numpy")
            compare = (*verify, "--python", f"{_OFFICIAL}/bin/python", *self._list_cuda_words(version))
            yield self._make_job("verify", f"verify-{cuda}", python, needs, make, fill, compare)
            return
        # upstream's CPU tests are run from the applied tree; to enter the root takes one in any case
        apply = ("nox", "-s", f"apply-{self.release}", *(("--", "--debian-patches") if self.env == "rootfs" else ()))
        yield self._make_job("verify", f"verify-{cuda}", python, needs, apply, verify)
        contract = ("nox", "-s", f"contract-{self.release}", "--", "--env", self.env, "--beside-cuda")
        report = f"build/{self.release}/verify/contract-both/report"
        yield self._make_job("contract", f"contract-{cuda}", python, needs, apply, contract, paths=(report,))

    def _list_slices(
        self, stage: str, python: str, build: tuple[str, ...], names: tuple[str, ...], needs: tuple[str, ...]
    ) -> Iterator[Job]:
        for number, name in enumerate(names, start=1):
            command = (*build, *self._list_cache_words(), "--shard", f"{number}/{self.shards}")
            yield self._make_job(stage, name, python, needs, command, paths=(OBJECTS,))

    def _make_job(
        self,
        stage: str,
        name: str,
        python: str,
        needs: tuple[str, ...],
        *commands: tuple[str, ...],
        paths: tuple[str, ...] = (),
        shards: tuple[str, ...] = (),
    ) -> Job:
        cache = name if stage not in ("verify", "contract") else ""
        published = stage in ("core", "cuda") and self.env == PUBLISHED
        minutes, build = self.limits.job_minutes, self.limits.job_minutes - self.limits.spare_minutes
        return Job(name, stage, self.release, python, needs, shards, commands, cache, paths, minutes, build, published)

    def _list_build_words(self, python: str) -> tuple[str, ...]:
        words = ["nox", "-s", f"build-{self.release}", "--", "--env", self.env]
        if self.env == "portable" and python != self._own:
            words += ["--python", python]
        if self.revision:
            words += ["--revision", str(self.revision)]
        return tuple(words)

    def _list_cuda_words(self, version: str) -> tuple[str, ...]:
        """Other environments have one CUDA."""
        return ("--cuda", version) if self.env == "portable" else ()

    def _list_cache_words(self) -> tuple[str, ...]:
        return ("--cache", f"file:{OBJECTS}") if self.shards else ()

    def _name_shards(self, of: str) -> tuple[str, ...]:
        return tuple(f"shard-{number}-{of}" for number in range(1, self.shards + 1))

    def _locate_wheels(self, project: str) -> str:
        return f"dist/{self.release}/torch{project}-*.whl*"

    def _locate_folder(self, python: str) -> str:
        base = f"build/{self.release}"
        if self.env != "portable":
            return base
        return f"{base}/portable" if python == self._own else f"{base}/python{python}"

    @property
    def _own(self) -> str:
        return self.can.python[self.env][0]


def _read_own_python(description: Path) -> str:
    """Of a root: major and minor version, by what was seen in it."""
    seen = {
        name: version for layer in _read_table(description)["layer"] for name, version in layer.get("seen", {}).items()
    }
    return ".".join(seen["python3"].split(".")[:2])


def _read_table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
