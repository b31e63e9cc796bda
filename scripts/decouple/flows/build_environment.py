"""Decide where, of what and how stages are built; open a shell there.

>>> from decouple.flows.build_environment import open_build
>>> from decouple.flows.build_request import BuildRequest
>>> open_build(BuildRequest(project, "2.6", env="host", tree=source, stage=1))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: --env host: ...
"""

from __future__ import annotations

from msgspec.structs import replace

from decouple.build.environment import Environment, replace_places
from decouple.build.options import Choices, Provenance
from decouple.flows import portable_environment
from decouple.flows.build_request import BuildRequest, list_layers, settle_choices
from decouple.flows.listener import QUIET, Listener
from decouple.flows.prebuilt_kernels import await_halves, start_fetch
from decouple.flows.provenance import read_provenance
from decouple.flows.tree_overlay import lay_overlay_again
from decouple.flows.work_environment import open_environment, prepare_tree_and_root
from decouple.prebuilt import pairing


def open_build(request: BuildRequest, listener: Listener = QUIET) -> tuple[Environment, Provenance, Choices]:
    """Open the environment with all that the stages of ``request`` need.

    Returned are also what they are made of, and what was chosen; the tree is made if need be. Raises UsageError,
    DecoupleError.
    """
    choices, places = settle_choices(request), request.places
    layers = list_layers(request)
    lay_overlay_again(request, places, listener)
    pair = pairing.load_pair(request.release) if request.against == "official" else None
    fetched = start_fetch(pair) if pair else None
    prepare_tree_and_root(request, places, layers, listener)
    if pair and fetched:
        halves = await_halves(fetched, pair, listener)
        choices = replace(choices, wheels=(halves.read_origin()["wheel"],))
    places.create_folders()
    environment = open_environment(request, places, layers, listener)
    known = read_provenance(places)
    if choices.cuda:
        known = replace(known, cuda=choices.cuda)
    if request.env == portable_environment.KIND:
        bundled = portable_environment.bundle_third_party(places, request.third_party, QUIET)
        choices = replace(choices, variables={**bundled.variables, **choices.variables})
        known = replace(known, sources=(*known.sources, *bundled.rows))
    return environment, known, choices


def select_stage(environment: Environment, stage: int, choices: Choices) -> Environment:
    """Return the environment with the places of one stage.

    A CUDA version that was chosen has its own.
    """
    if stage == 1 or not choices.cuda:
        return environment
    places = environment.places.with_cuda(environment.kind, choices.cuda)
    places.create_folders()
    return replace_places(environment, places)
