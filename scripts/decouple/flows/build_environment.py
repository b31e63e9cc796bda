"""Where the stages of a request are built, of what and how: what a build runs in, and a shell in its place.

>>> from decouple.flows.build_environment import opened
>>> from decouple.flows.build_request import Build
>>> opened(Build(project, "2.6", env="host", tree=source, stage=1))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: --env host: ...
"""

from __future__ import annotations

from msgspec.structs import replace

from decouple.build import makings
from decouple.build.choices import Choices, Provenance
from decouple.build.environment import Environment, with_places
from decouple.flows import portable
from decouple.flows.build_request import Build, choices_of
from decouple.flows.environment import need_tree, open_environment
from decouple.flows.listener import QUIET, Listener
from decouple.flows.over_kernels import official_halves
from decouple.flows.provenance import provenance
from decouple.prebuilt import pairing


def opened(request: Build, listener: Listener = QUIET) -> tuple[Environment, Provenance, Choices]:
    """The environment with all that the stages of ``request`` need, what they are made of, and what was chosen; the
    tree is made if need be. Raises UsageError, DecoupleError."""
    choices, places = choices_of(request), request.places
    layers = list(dict.fromkeys(one for n in request.stages for one in makings.layers_of(n, choices, request.env)))
    need_tree(request, places, listener, layers)
    if request.against == "official":
        halves = official_halves(pairing.load_pair(request.release), listener)
        choices = replace(choices, wheels=(halves.read_origin()["wheel"],))
    places.make()
    environment = open_environment(request, places, layers, listener)
    known = provenance(places)
    if choices.cuda:
        known = replace(known, cuda=choices.cuda)
    if request.env == portable.KIND:
        bundled = portable.bundle(places, request.third_party, QUIET)
        choices = replace(choices, variables={**bundled.variables, **choices.variables})
        known = replace(known, sources=(*known.sources, *bundled.rows))
    return environment, known, choices


def with_stage(environment: Environment, stage: int, choices: Choices) -> Environment:
    """The environment with the places of one stage: a CUDA version that was chosen has its own."""
    if stage == 1 or not choices.cuda:
        return environment
    places = environment.places.of_cuda(environment.kind, choices.cuda)
    places.make()
    return with_places(environment, places)
