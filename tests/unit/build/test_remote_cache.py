"""A compiler cache that machines share, in a real Redis or in a folder: shards fill it, the last build links; and what
goes wrong."""

from __future__ import annotations

import errno
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import remote_cache, remote_stores, shards
from decouple.build.environment import HostEnvironment
from decouple.build.options import Choices, Provenance
from decouple.build.remote_cache import CacheProxy
from decouple.build.stage import BuildJob, ShardResult, StageWheel
from decouple.build.stage1 import Stage1
from decouple.build.wheel_finishing import read_manifest
from tests.support.redis_server import Server
from tests.unit.build.conftest import make_tree

pytestmark = pytest.mark.tools("redis-server", "ccache", "cmake", "ninja", "cc")
SECRET = "a secret of all builders"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*words: str) -> Server:
        started.append(Server(tmp_path / f"redis{len(started)}", *words))
        return started[-1]

    yield start
    for one in started:
        one.stop()


class Machine:
    """One of several: a tree and a local cache of its own, under paths of its own."""

    def __init__(self, host: HostEnvironment, folder: Path, provenance: Provenance) -> None:
        tree = make_tree(folder / "src")
        places = replace(
            host.places,
            tree=tree,
            stage1=tree / "build",
            **{name: folder / name for name in ("core", "verify", "raw", "dist", "state", "ccache", "logs", "stage2")},
        )
        places.create_folders()
        self.environment, self.provenance = HostEnvironment(places), provenance

    def stage(self, proxy: CacheProxy | None) -> Stage1:
        environment, variables = proxy.add_to_environment(self.environment) if proxy else (self.environment, {})
        # objects of a tree under another path: what a root gives by showing every tree under one
        choices = Choices(variables={**variables, "CCACHE_BASEDIR": str(self.environment.places.tree)})
        return Stage1(BuildJob(environment, self.provenance, choices))

    def shard(self, proxy: CacheProxy, word: str) -> ShardResult:
        return self.stage(proxy).compile_shard(shards.ObjectShard.parse(word))

    def build(self, proxy: CacheProxy | None) -> StageWheel:
        stage = self.stage(proxy)
        stage.prepare()  # CMake's own trials are compiled by then, and not counted
        return stage.build_wheel()


def library(built: StageWheel) -> bytes:
    """The linked library in the wheel."""
    with zipfile.ZipFile(built.wheel) as wheel:
        return wheel.read("tiny/lib/libtiny.so")


Machines = Callable[[], Machine]


@pytest.fixture
def machines(host: HostEnvironment, tmp_path: Path, provenance: Provenance) -> Machines:
    made: list[Machine] = []

    def one() -> Machine:
        made.append(Machine(host, tmp_path / f"machine{len(made)}", provenance))
        return made[-1]

    return one


@pytest.mark.parametrize("where", ["redis", "folder"])
def test_shards_fill_the_cache_and_the_last_build_compiles_nothing(
    server: Callable[..., Server], machines: Machines, tmp_path: Path, where: str
) -> None:
    url = server().url if where == "redis" else f"file:{tmp_path}/shared"
    with remote_cache.open_proxy(url, SECRET) as proxy:
        for number in (1, 2, 3):
            made = machines().shard(proxy, f"{number}/3")
            assert (made.total, made.effort.compiled) == (4, made.objects)
        last = machines().build(proxy)
        assert (last.effort.compiled, last.effort.cached) == (0, 4)
        assert proxy.tally.taken >= 8  # two records an object: which headers it read, and the object
    alone = machines().build(None)
    assert alone.effort.compiled == 4
    assert library(alone) == library(last)
    assert b"redis" not in read_manifest(last.wheel).to_json()  # a wheel does not depend on where its objects came from


def test_a_shard_that_was_stopped_leaves_the_rest_to_whoever_links(
    server: Callable[..., Server], machines: Machines
) -> None:
    with remote_cache.open_proxy(server().url, SECRET) as proxy:
        machines().shard(proxy, "1/2")
        broken = machines()
        (broken.environment.places.tree / "part3.c").write_text("int part3(void) { return 3 }\n")
        with pytest.raises(DecoupleError, match="part3"):
            broken.shard(proxy, "2/2")
        last = machines().build(proxy)
    assert last.effort.compiled is not None and 1 <= last.effort.compiled <= 2
    assert last.effort.compiled + (last.effort.cached or 0) == 4


def test_a_server_that_is_down_costs_its_objects_and_a_line(server: Callable[..., Server], machines: Machines) -> None:
    down = server()
    down.stop()
    with remote_cache.open_proxy(down.url, SECRET) as proxy:
        assert machines().build(proxy).effort.compiled == 4
    assert any("no answer" in line and "refused" in line and "compiled here" in line for line in proxy.format_report())


def test_a_server_that_is_full_keeps_nothing_and_a_line_says_so(
    server: Callable[..., Server], machines: Machines
) -> None:
    full = server("--maxmemory", "1", "--maxmemory-policy", "noeviction")
    with remote_cache.open_proxy(full.url, SECRET) as proxy:
        assert machines().build(proxy).effort.compiled == 4
    assert proxy.tally.full >= 4
    assert any("full, " in line and "were not kept" in line for line in proxy.format_report())


def objects_of(server: Server) -> dict[bytes, bytes]:
    return {key: server.client.get(key) for key in server.client.keys("decouple:*")}  # type: ignore[union-attr,misc]


def test_a_poisoned_object_is_not_linked(server: Callable[..., Server], machines: Machines) -> None:
    shared = server()
    with remote_cache.open_proxy(shared.url, SECRET) as proxy:
        machines().shard(proxy, "1/1")
    before = objects_of(shared)
    assert len(before) >= 8
    names = sorted(before)
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        shared.client.set(name, before[other])  # each rightly signed, under another's name
    with remote_cache.open_proxy(shared.url, SECRET) as proxy:
        built = machines().build(proxy)
        assert built.effort.compiled == 4
        assert proxy.tally.forged >= 4
    assert any("not put there by a holder of DECOUPLE_CACHE_KEY" in line for line in proxy.format_report())
    assert library(built) == library(machines().build(None))


def test_what_several_machines_put_into_folders_of_their_own_is_one_cache(machines: Machines, tmp_path: Path) -> None:
    """As a CI host hands it over: the folders of all shards, laid over each other."""
    for number in (1, 2):
        with remote_cache.open_proxy(f"file:{tmp_path}/of{number}") as proxy:
            assert machines().shard(proxy, f"{number}/2").effort.compiled
        shutil.copytree(tmp_path / f"of{number}", tmp_path / "all", dirs_exist_ok=True)
    with remote_cache.open_proxy(f"file:{tmp_path}/all") as proxy:
        last = machines().build(proxy)
    assert (last.effort.compiled, last.effort.cached) == (0, 4)


def test_a_folder_that_is_damaged_or_full_keeps_nothing_and_a_line_says_so(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared"
    url = f"file:{folder}"
    with remote_cache.open_proxy(url, SECRET) as proxy:
        machines().shard(proxy, "1/1")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == proxy.tally.put
    for one, other in zip(files, [*files[1:], files[0]], strict=True):
        other.rename(tmp_path / one.name)  # each rightly signed, under another's name
    for one in files:
        (tmp_path / one.name).rename(one)
    with remote_cache.open_proxy(url, SECRET) as proxy:
        assert machines().build(proxy).effort.compiled == 4
        assert proxy.tally.forged >= 4
    shutil.rmtree(folder)
    folder.write_text("a file")
    with pytest.raises(UsageError, match="shared"), remote_cache.open_proxy(url):
        pass
    folder.unlink()

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(remote_stores, "write_atomically", no_room)
    with remote_cache.open_proxy(url, SECRET) as proxy:
        assert machines().build(proxy).effort.compiled == 4
    assert any("full, " in line and "a folder more disk" in line for line in proxy.format_report())


def test_flipped_bits_and_another_secret_are_compiled_again(server: Callable[..., Server], machines: Machines) -> None:
    shared = server()
    with remote_cache.open_proxy(
        shared.url
    ) as proxy:  # without a secret ccache's own checksum still finds chance damage
        machines().shard(proxy, "1/1")
        assert any("whoever writes to it decides" in line for line in proxy.format_report())
    for key in shared.client.keys("*"):  # type: ignore[union-attr]
        value = bytearray(shared.client.get(key))  # type: ignore[arg-type]
        value[len(value) // 2] ^= 0x10
        shared.client.set(key, bytes(value))
    with remote_cache.open_proxy(shared.url) as proxy:
        assert machines().build(proxy).effort.compiled == 4
    with remote_cache.open_proxy(shared.url, "another") as proxy:
        assert machines().build(proxy).effort.compiled == 4
        assert proxy.tally.taken == 0


def test_a_password_stays_outside(
    server: Callable[..., Server], machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    closed = server("--requirepass", "hunter2")
    with remote_cache.open_proxy(closed.url.replace("//", "//:hunter2@"), SECRET) as proxy:
        machine = machines()
        machine.shard(proxy, "1/1")
        assert proxy.tally.put >= 4
        assert "hunter2" not in "".join((*proxy.format_report(), *map(str, machine.stage(proxy).variables.values())))
    with remote_cache.open_proxy(closed.url, SECRET) as proxy:
        assert machines().build(proxy).effort.compiled == 4
    assert any("no answer" in line for line in proxy.format_report())


def test_the_proxy_is_for_objects_only(server: Callable[..., Server]) -> None:
    shared = server()
    shared.client.set("other", b"1")
    with remote_cache.open_proxy(shared.url, SECRET) as proxy, socket.socket(socket.AF_UNIX) as talk:
        talk.connect(str(proxy.folder / "cache.sock"))
        talk.sendall(b"*1\r\n$8\r\nFLUSHALL\r\n")
        assert talk.recv(100).startswith(b"-ERR")
        talk.sendall(b"*2\r\n$3\r\nGET\r\n$5\r\nother\r\n")
        assert talk.recv(100) == b"$-1\r\n"
        talk.sendall(b"GARBAGE\r\n")
        assert talk.recv(100) == b""
    assert shared.client.get("other") == b"1"
    assert not proxy.folder.exists()


def test_a_folder_is_called_as_it_is_called(tmp_path: Path) -> None:
    """What follows a "#" was cut off: the objects went to another folder."""
    folder = tmp_path / "C# 100%20?"
    with remote_cache.open_proxy(f"file:{folder}") as proxy:
        assert proxy.name == f"file:{folder}" and [*tmp_path.iterdir()] == [folder]


def test_the_home_is_meant_by_a_word_that_the_shell_leaves_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert remote_cache.check_address("file:~/objects") == f"file:{tmp_path / 'objects'}"
    assert remote_cache.check_address("file:~") == f"file:{Path.cwd() / '~'}"


@pytest.mark.parametrize(
    "url", ["http://host/", "host:6379", "redis://", "redis://host:port/0", "", "file:", "file://host/folder", "folder"]
)
def test_an_address_of_no_cache(url: str) -> None:
    with pytest.raises(UsageError, match="--cache") as error, remote_cache.open_proxy(url):
        pass
    assert "redis://HOST:6379/0" in str(error.value.next_step)
    assert "file:FOLDER" in str(error.value.next_step)


def test_the_address_is_named_without_its_password() -> None:
    assert remote_cache.check_address("rediss://me:hunter2@cache.example:7000/3") == "rediss://cache.example:7000"


def test_every_machine_cuts_alike_and_no_slice_is_long() -> None:
    seconds = {f"{number}.o": float(number % 17 + 1) for number in range(500)}
    slices = shards.cut_objects(seconds, 8)
    assert sorted(name for one in slices for name in one) == sorted(seconds)
    assert slices == shards.cut_objects(dict(reversed(seconds.items())), 8)
    loads = [sum(seconds[name] for name in one) for one in slices]
    assert max(loads) - min(loads) <= max(seconds.values())


@pytest.mark.parametrize("word", ["0/8", "9/8", "3", "3/0", "a/b", "-1/8"])
def test_a_shard_is_one_of_some(word: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        shards.ObjectShard.parse(word)
