"""Build torch_cuda by its own backend against a core, kernels compiled or given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from decouple.base.files import write_atomically
from decouple.build import probe, settings, toolchain, toolkits, wheel_finishing
from decouple.build.core_wheel import hold_core, read_core_digest, unpack_core
from decouple.build.environment import TREE_NOTE, find_other_tree, read_output, remove_objects
from decouple.build.settings import Cost
from decouple.build.stage import BuildJob, Stage
from decouple.release import projects


class Stage2(Stage):
    """Configure, compile and pack torch_cuda against an installed core, once each.

    Its own build backend does it. Raises DecoupleError where it is made, when the core or something of CUDA's is
    missing.
    """

    number, project = 2, projects.CUDA

    def __init__(self, job: BuildJob) -> None:
        super().__init__(job)
        if job.choices.core == "built":
            unpack_core(job.environment, job.provenance.version, job.choices, job.say)
            self.core = read_core_digest(self.places)
        self.check_environment()

    def check_environment(self) -> None:
        """Check that the environment has what is built with and against.

        Raises DecoupleError naming what it lacks.
        """
        job = self.job
        prefix = self.variables["TORCH_CUDA_CORE_PREFIX"]
        cudnn = self.variables.get("USE_CUDNN", "1") not in ("0", "OFF")
        wanted = probe.Stage2Needs(job.provenance.cuda, job.provenance.version, job.choices.archs, prefix, cudnn)
        probe.check_stage2(probe.probe_environment(job.environment, self.variables, prefix), wanted)

    @property
    def version(self) -> str:
        return f"{self.job.provenance.version}+cu{(self.job.provenance.cuda or '').replace('.', '')}"

    @property
    def folder(self) -> Path:
        return self.places.stage2

    @contextlib.contextmanager
    def hold_inputs(self) -> Iterator[tuple[int, ...]]:
        if self.core:
            with hold_core(self.places, self.core) as held:
                yield (held,)
        else:
            yield ()

    def identify_core(self) -> str:
        return " ".join([self.core, *(str(wheel["sha256"]) for wheel in self.job.choices.wheels)]).strip()

    def describe_stage(self) -> dict[str, Any]:
        choices = self.job.choices
        flags = {"core": choices.core, "flash": choices.flash}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": choices.archs}

    def make_backend_command(self) -> list[str]:
        """Return the command of the project's own build backend."""
        return [self.find_python(), "-B", "-m", "torch_cuda_build.backend"]

    @property
    def source(self) -> str:
        """The project's folder, inside."""
        return f"{self.names['tree']}/third_device/torch_cuda"

    def prepare(self) -> None:
        self._clear_other_objects()
        self.run_step("configure stage 2", [*self.make_backend_command(), "configure"], self.source)

    def _clear_other_objects(self) -> None:
        """Delete the objects of another tree (``--tree``) or another compiler.

        In a root trees have one name, and ninja takes an object for up to date that is newer than the other's source.
        """
        other = find_other_tree(self.folder, self.places.tree)
        why = f"are of the tree {other}" if other else self.find_other_compilers()
        if why:
            self.job.say(f"stage 2: the objects in {self.folder} {why}: deleted")
            remove_objects(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / TREE_NOTE, str(self.places.tree.resolve()))
        toolchain.note_compilers(self.folder, self.describe_origin())

    def make_raw_wheel(self) -> Path:
        self.compile_targets()
        raw = self.pack_wheel(
            [*self.make_backend_command(), "pack", "--stored"], self.source
        )  # the finished wheel is written anew
        if self.environment.kind == "portable":
            self._check_platform(raw)
        return raw

    def _check_platform(self, raw: Path) -> None:
        """Check the tag in the wheel's name, which was given to the build.

        Auditwheel says whether its libraries keep it.
        """
        inside, output = f"{self.names['raw']}/stage2/{raw.name}", list[str]()
        self.run_step("platform of stage 2", [*settings.read_facts().portable.show, inside], "/", output.append)
        wheel_finishing.check_platform(raw.name, " ".join(output))


class OtherVendor(Stage2):
    """Build the sources by another vendor's toolkit, as a package beside torch_cuda."""

    def __init__(self, job: BuildJob) -> None:
        self.vendor = toolkits.find_vendor(job.choices.toolkit)
        super().__init__(job)
        self.project = self.vendor.project.replace("_", "-")

    def check_environment(self) -> None:
        """CMake looks for the toolkit, and says what is not there."""

    @property
    def version(self) -> str:
        return f"{self.job.provenance.version}+{self.vendor.local_version}"

    @property
    def source(self) -> str:
        return f"{self.names['tree']}/third_device/{self.vendor.project}"

    def make_backend_command(self) -> list[str]:
        return [self.find_python(), "-B", "-m", f"{self.vendor.project}_build"]

    def describe_toolchain(self) -> dict[str, Any]:
        told = self._ask_toolchain(1)
        for name, command in self.vendor.toolchain.items():
            told[name] = (read_output(self.environment, command, self.variables) or "").partition("\n")[0] or None
        return told

    def describe_stage(self) -> dict[str, Any]:
        described = super().describe_stage()
        return {**described, "flags": {**described["flags"], "toolkit": self.job.choices.toolkit}, "cuda": None}


class Bindings(Stage2):
    """Build torch_cuda over others' compiled kernel libraries: host C++ alone."""

    level = 1
    """A GiB of libraries: level 6 takes 2.5 times as long, and the wheel is 5 % smaller."""

    def __init__(self, job: BuildJob) -> None:
        super().__init__(job)
        for name in settings.read_facts().bindings.unused:
            self.variables.pop(name, None)
        self.variables["TORCH_CUDA_KERNELS"] = self.names["kernels"]
        self.variables |= settings.read_facts().bindings.environment

    def check_environment(self) -> None:
        """Check only for CUDA's headers, which lie beside the kernels."""

    def list_layers(self) -> Sequence[str]:
        return toolchain.list_bindings_layers(self.job.choices, self.environment.kind)

    def describe_toolchain(self) -> dict[str, Any]:
        return self._ask_toolchain(1)

    def describe_origin(self) -> dict[str, Any]:
        # in a root the folders of all have one name; the headers of the one before last are older than the objects
        kernels = ", ".join(f"{wheel['name']} ({str(wheel['sha256'])[:12]})" for wheel in self.job.choices.wheels)
        return {**self.own_toolchain, "kernels": kernels}

    def estimate_cost(self) -> Cost:
        return settings.read_facts().bindings.cost

    def describe_stage(self) -> dict[str, Any]:
        flags = {"core": self.job.choices.core, "kernels": self.job.choices.kernels}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": self.job.choices.archs}
