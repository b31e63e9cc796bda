"""torch_cuda, by its own build backend against an installed core: with kernels compiled, or over those of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decouple.build import makings, probe, settings, toolkits, wheels
from decouple.build.core_wheel import unpack_core
from decouple.build.settings import Cost
from decouple.build.stage import Job, Stage
from decouple.release import projects


class Stage2(Stage):
    """torch_cuda, by its own build backend against an installed core: configured, compiled and packed once each.

    Raises DecoupleError where it is made, when the core or something of CUDA's is missing.
    """

    number, project = 2, projects.CUDA

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if job.choices.core == "built":
            unpack_core(job.environment, job.provenance.version)
        self.check()

    def check(self) -> None:
        """Whether the environment has what is built with and against. Raises DecoupleError naming what it lacks."""
        job = self.job
        prefix = self.variables["TORCH_CUDA_CORE_PREFIX"]
        cudnn = self.variables.get("USE_CUDNN", "1") not in ("0", "OFF")
        wanted = probe.Wanted(job.provenance.cuda, job.provenance.version, job.choices.archs, prefix, cudnn)
        probe.check_stage2(probe.ask_inside(job.environment, self.variables, prefix), wanted)

    @property
    def version(self) -> str:
        return f"{self.job.provenance.version}+cu{(self.job.provenance.cuda or '').replace('.', '')}"

    @property
    def folder(self) -> Path:
        return self.places.stage2

    def core(self) -> str:
        built = (self.places.core / "wheel.sha256").read_text() if self.job.choices.core == "built" else ""
        return " ".join([built, *(str(wheel["sha256"]) for wheel in self.job.choices.wheels)]).strip()

    def said(self) -> dict[str, Any]:
        choices = self.job.choices
        flags = {"core": choices.core, "flash": choices.flash}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": choices.archs}

    def backend(self) -> list[str]:
        """The command of the project's own build backend."""
        return [self.python(), "-B", "-m", "torch_cuda_build.backend"]

    @property
    def source(self) -> str:
        """The project's folder, inside."""
        return f"{self.names['tree']}/third_device/torch_cuda"

    def ready(self) -> None:
        self.run("configure stage 2", [*self.backend(), "configure"], self.source)

    def make(self) -> Path:
        self.compile()
        raw = self.pack([*self.backend(), "pack", "--stored"], self.source)  # the finished wheel is written anew
        if self.environment.kind == "portable":
            self._check_platform(raw)
        return raw

    def _check_platform(self, raw: Path) -> None:
        """The tag in the wheel's name was given to the build: auditwheel says whether its libraries keep it."""
        inside, said = f"{self.names['raw']}/stage2/{raw.name}", list[str]()
        self.run("platform of stage 2", [*settings.facts().portable.show, inside], "/", said.append)
        wheels.check_platform(raw.name, " ".join(said))


class OtherVendor(Stage2):
    """The same sources by another vendor's toolkit, which has a package of its own beside torch_cuda."""

    def __init__(self, job: Job) -> None:
        self.vendor = toolkits.vendor(job.choices.toolkit)
        super().__init__(job)
        self.project = self.vendor.project.replace("_", "-")

    def check(self) -> None:
        """CMake looks for the toolkit, and says what is not there."""

    @property
    def version(self) -> str:
        return f"{self.job.provenance.version}+{self.vendor.local_version}"

    @property
    def source(self) -> str:
        return f"{self.names['tree']}/third_device/{self.vendor.project}"

    def backend(self) -> list[str]:
        return [self.python(), "-B", "-m", f"{self.vendor.project}_build"]

    def toolchain(self) -> dict[str, Any]:
        return makings.toolchain_of(self.environment, 1, self.layers(), self.variables)

    def said(self) -> dict[str, Any]:
        return {**super().said(), "cuda": None}


class Bindings(Stage2):
    """torch_cuda over libraries with kernels that somebody else compiled: host C++ alone."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        for name in settings.facts().bindings.unused:
            self.variables.pop(name, None)
        self.variables["TORCH_CUDA_KERNELS"] = self.names["kernels"]

    def check(self) -> None:
        """Nothing of CUDA's is needed but headers, which lie beside the kernels."""

    def layers(self) -> Sequence[str]:
        return makings.bindings_layers(self.job.choices, self.environment.kind)

    def toolchain(self) -> dict[str, Any]:
        return makings.toolchain_of(self.environment, 1, self.layers(), self.variables)

    def cost(self) -> Cost:
        return settings.facts().bindings.cost

    def said(self) -> dict[str, Any]:
        flags = {"core": self.job.choices.core, "kernels": self.job.choices.kernels}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": self.job.choices.archs}
