"""Find the wheels that ``build --env portable`` made last for a Python.

>>> from decouple.flows.portable_wheels import PortableWheels
>>> PortableWheels(project, "2.6", python="3.13", kernels="official").format_command()
'decouple build 2.6 --env portable --python 3.13 --stage 2 --core built --kernels official'
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import UsageError
from decouple.build import inputs
from decouple.build.environment import Places
from decouple.flows import portable_environment
from decouple.flows.build_request import BuildRequest
from decouple.flows.tryout import select_fitting
from decouple.flows.work_environment import WorkRequest
from decouple.upstream.manifests import load_release


class PortableWheels(WorkRequest, frozen=True):
    """Name a build by what its wheels are for."""

    python: str = ""
    """The Python that they must fit, "3.13"; empty: the root's own."""
    cuda: str = ""
    """The CUDA that kernels were compiled with; empty: the official wheel's."""
    kernels: str = "compiled"
    """Whose they are, as ``BuildRequest.kernels`` says it."""

    @property
    def places(self) -> Places:
        """The folders of that build."""
        places = self._build.places
        if self.kernels != "compiled":
            return places
        cuda = self.cuda or load_release(self.project, self.release).toolchain.cuda or ""
        return places.with_cuda(portable_environment.KIND, cuda)

    @property
    def _build(self) -> BuildRequest:
        return replace(self._root_build, python=self._asked_python)

    @property
    def _root_build(self) -> BuildRequest:
        kind = portable_environment.KIND
        return BuildRequest(self.project, self.release, kind, self.tree, kernels=self.kernels, core="built")

    @property
    def _asked_python(self) -> str:
        """What the build was asked for: "" for the root's own.

        Its places have no folder of a version.
        """
        own = inputs.read_stamp(self._root_build.places.core_state / "stage1.json")
        return "" if own and select_fitting([Path(own.wheel)], self.python) else self.python

    def format_command(self) -> str:
        """Return the command that builds these wheels."""
        return self._format_command(self._asked_python)

    def _format_command(self, python: str) -> str:
        kernels = (
            () if self.kernels == "compiled" else (("--stage", "2"), ("--core", "built"), ("--kernels", self.kernels))
        )
        chosen = [("--python", python), ("--cuda", self.cuda), *kernels]
        words = [word for option, value in chosen if value for word in (option, value)]
        return " ".join(["decouple", "build", self.release, "--env", portable_environment.KIND, *words])

    def find_wheel(self, stage: int) -> Path:
        """Return the wheel of ``stage``.

        Raises UsageError with the command that builds it where it is not there, DecoupleError where other bytes are.
        """
        places = self.places
        stamp = inputs.read_stamp((places.core_state if stage == 1 else places.state) / f"stage{stage}.json")
        if stamp is None or not (places.dist / stamp.wheel).exists():
            command = self._format_command(self.python)
            raise UsageError(
                f"{places.dist}: no wheels of --env portable for Python {self.python}",
                next_step=f"{command} (stage {stage} is missing; without --python where that is the root's own)",
            )
        return inputs.locate_wheel(stamp, places.dist, self.format_command())
