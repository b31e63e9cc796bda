"""Take upstream's tests by the name that upstream gave the method.

This is the pytest plugin that runs inside its suites. Not by ``-k``, which knows no globs, nor by node ids, which hold
the device's name.
"""

from __future__ import annotations

import fnmatch
import multiprocessing
import sys
from typing import Any

import pytest
import torch

from third_device_contract.upstream import strip_device

PRELOADED = (
    "torch",
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
)
THREADS = "torch.testing._internal.distributed.multi_threaded_pg"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--only-tests", default="", help="globs over test names, separated by |; empty: all")
    parser.addoption("--left-out", default="", help="globs of tests not to run")
    parser.addoption("--any-device", action="store_true", help="take tests without the device in their names, too")


def pytest_configure(config: pytest.Config) -> None:
    """Let a test's ranks begin where PyTorch is imported already.

    ``spawn``, which upstream says, imports it for each rank of each test, which takes most of the time. Nothing else
    asks for a context there.
    """
    if config.getoption("--any-device"):
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload(list(PRELOADED))
        torch.multiprocessing.get_context = lambda method=None: server


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what ``--only-tests`` takes, drop what ``--left-out`` names.

    What is not about the device is dropped too, but with ``--any-device``.
    """
    every = config.getoption("--any-device")
    device = torch._C._get_privateuse1_backend_name()
    only, out = ([glob for glob in config.getoption(key).split("|") if glob] for key in ("--only-tests", "--left-out"))

    def taken(item: pytest.Item) -> bool:
        base = item.name if every else strip_device(item.name, device)
        matches = [any(fnmatch.fnmatchcase(base, glob) for glob in globs) for globs in (only, out)]
        return (every or base != item.name) and (matches[0] or not only) and not matches[1]

    if every:
        order_collectives_of_threads(device)
    kept = [item for item in items if taken(item)]
    config.hook.pytest_deselected(items=[item for item in items if not taken(item)])
    items[:] = kept


class OrderedCollective:
    """A collective of upstream's that waits for all devices, before and after."""

    def __init__(self, collective: Any, device: str) -> None:
        self.collective = collective
        self.module = torch.get_device_module(device)

    def work(self, data: Any) -> None:
        """Exchange ``data`` as upstream does, when all ranks have written theirs."""
        self.wait_for_devices()
        self.collective.work(data)
        self.wait_for_devices()

    def wait_for_devices(self) -> None:
        """Wait for what is queued on all streams of all devices."""
        for index in range(self.module.device_count()):
            self.module.synchronize(index)


def order_collectives_of_threads(device: str) -> None:
    """Order the collectives of ranks that are threads, where a test has such.

    Upstream's (``multi_threaded_pg.py``: Collective.join) copy on the stream of rank 0, and neither is that ordered
    behind the other ranks' streams, nor are those behind it: a busy machine reads what memory held before.
    """
    module = sys.modules.get(THREADS)
    if module is None:
        return
    plain = module.Collective.__init__

    def init_ordered(self: Any, world_size: int, collective: Any, pg: Any) -> None:
        plain(self, world_size, OrderedCollective(collective, device), pg)

    module.Collective.__init__ = init_ordered
