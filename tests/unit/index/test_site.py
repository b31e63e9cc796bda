"""Publishing wheels as a static index, and checking it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pypi_simple import ProjectPage

from decouple.base.errors import DecoupleError, UsageError
from decouple.index import provenance, site, wheel
from decouple.index.check import check_index, check_site
from decouple.index.remote import Index
from tests.support.server import CatchAllServer, FaultyServer, status, wrong_bytes
from tests.unit.index.wheels import SERIES_A, SERIES_B, make_manifest, make_pair, make_wheel, publish_beside_patched


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    make_pair(folder)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_published_site_holds(dist: Path, tmp_path: Path) -> None:
    built = site.build_site(dist, tmp_path / "site")
    assert len(built.added) == 2
    assert check_index(Index(str(tmp_path / "site"))) == []


def test_a_folder_that_is_no_site_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    """It was asked back: "is this the index's folder?"."""
    with pytest.raises(DecoupleError) as refused:
        check_index(Index(str(tmp_path / "public")))
    assert "`decouple index build FOLDER --site SITE`" in str(refused.value.next_step)


def test_equal_input_gives_equal_bytes(dist: Path, tmp_path: Path) -> None:
    site.build_site(dist, tmp_path / "one")
    site.build_site(dist, tmp_path / "two")
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")
    assert site.build_site(dist, tmp_path / "one").pages == ()


def test_a_release_is_added_without_the_wheels_of_the_others(dist: Path, tmp_path: Path) -> None:
    site.build_site(dist, tmp_path / "site")
    before = snapshot(tmp_path / "site")
    newer = tmp_path / "newer"
    make_wheel(newer, "torch", "2.7.1+decoupled.1")
    site.build_site(newer, tmp_path / "site")
    after = snapshot(tmp_path / "site")
    untouched = [name for name in before if name.startswith(("files/", "releases/"))]
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert check_index(Index(str(tmp_path / "site"))) == []


def test_a_published_name_never_changes_its_bytes(dist: Path, tmp_path: Path) -> None:
    site.build_site(dist, tmp_path / "site")
    before = snapshot(tmp_path / "site")
    make_pair(dist, series=SERIES_B)
    with pytest.raises(DecoupleError, match="other bytes"):
        site.build_site(dist, tmp_path / "site")
    assert snapshot(tmp_path / "site") == before


def test_the_next_version_is_built_of_the_release_that_the_wheel_names(tmp_path: Path) -> None:
    """A candidate's release is not called by the first two numbers of its version."""
    for series in (SERIES_A, SERIES_B):
        made = replace(make_manifest("torch", "2.7.0rc3+decoupled", None, series), release="2.7.0rc3")
        make_wheel(tmp_path / "dist", "torch", made.version, manifest=made.to_json())
        if series is SERIES_A:
            site.build_site(tmp_path / "dist", tmp_path / "site")
    with pytest.raises(DecoupleError) as refused:
        site.build_site(tmp_path / "dist", tmp_path / "site")
    assert "`decouple build 2.7.0rc3 --revision N`" in str(refused.value.next_step)


def test_what_left_the_catalog_leaves_the_pages(dist: Path, tmp_path: Path) -> None:
    """Whoever takes a release back deletes its file, as the tool advises; another site stays."""
    root = tmp_path / "site"
    make_wheel(tmp_path / "hip", "torch-hip", "2.7.0+rocm6.4")
    site.build_site(tmp_path / "hip", root / "nightly")
    other = snapshot(root / "nightly")
    for folder in (dist, tmp_path / "hip"):
        site.build_site(folder, root)
    (root / "releases/2.7.json").unlink()
    gone = {"simple/torch-hip/index.json", "rocm64/simple/index.html", "rocm64/simple/torch-hip/index.json"}
    told = {fault.where for fault in check_site(Index(str(root)))}
    assert gone < told
    assert gone < set(site.build_site(dist, root).pages)
    assert check_site(Index(str(root))) == []
    assert not (root / "rocm64").exists() and not (root / "simple/torch-hip").exists()
    assert snapshot(root / "nightly") == other


def test_json_page_follows_pep_691(dist: Path, tmp_path: Path) -> None:
    site.build_site(dist, tmp_path / "site")
    page = json.loads((tmp_path / "site/simple/torch/index.json").read_bytes())
    assert page["meta"]["api-version"] == "1.1"
    assert page["versions"] == ["2.6.0+decoupled.1"]
    parsed = ProjectPage.from_json_data(page, base_url="https://example.org/simple/torch/")
    (package,) = parsed.packages
    assert package.url == "https://example.org/files/2.6/torch-2.6.0%2Bdecoupled.1-py3-none-any.whl"
    assert package.has_metadata


def test_yanking_marks_both_pages_and_the_landing_page(dist: Path, tmp_path: Path) -> None:
    site.build_site(dist, tmp_path / "site")
    site.yank_file(tmp_path / "site", "torch-2.6.0+decoupled.1-py3-none-any.whl", "wrong <flags>")
    index = Index(str(tmp_path / "site"))
    for page in (index.read_project_json("torch"), index.read_project_html("torch")):
        assert [offer.yanked for offer in page.offers] == ["wrong <flags>"]
    assert "wrong &lt;flags&gt;" in (tmp_path / "site/index.html").read_text()
    assert check_index(index) == []
    with pytest.raises(UsageError, match=r"nothing\.whl"):
        site.yank_file(tmp_path / "site", "nothing.whl", "")


def test_a_file_yanked_without_a_reason_is_yanked_on_both_pages(dist: Path, tmp_path: Path) -> None:
    """PEP 691: in JSON an empty reason is as good as none, and pip takes the file."""
    site.build_site(dist, tmp_path / "site")
    site.yank_file(tmp_path / "site", "torch-2.6.0+decoupled.1-py3-none-any.whl", "")
    (row,) = json.loads((tmp_path / "site/simple/torch/index.json").read_bytes())["files"]
    assert row["yanked"] is True
    assert 'data-yanked=""' in (tmp_path / "site/simple/torch/index.html").read_text()
    assert check_index(Index(str(tmp_path / "site"))) == []


def test_check_names_each_fault(dist: Path, tmp_path: Path) -> None:
    root = tmp_path / "site"
    site.build_site(dist, root)
    core = next((root / "files/2.6").glob("torch-*.whl"))
    core.write_bytes(core.read_bytes() + b"x")
    (cuda_metadata,) = (root / "files/2.6").glob("torch_cuda-*.metadata")
    cuda_metadata.write_bytes(b"Name: other\n")
    page = root / "simple/torch-cuda/index.html"
    page.write_text(page.read_text().replace("&gt;=3.9", "&gt;=3.12"))
    told = "\n".join(str(fault) for fault in check_index(Index(str(root))))
    assert "the link says" in told
    assert "differs from METADATA in the wheel" in told
    assert "index.json and index.html disagree" in told


def test_a_file_of_ours_is_checked_also_where_its_link_promises_no_metadata(dist: Path, tmp_path: Path) -> None:
    """A mirror may leave PEP 658's attributes out."""
    root = tmp_path / "site"
    site.build_site(dist, root)
    for page in (root / "simple/torch").iterdir():
        text = re.sub(r' data-(dist-info|core)-metadata="[^"]*"', "", page.read_text())
        page.write_text(re.sub(r'\n +"(core|dist-info)-metadata": {[^}]*},', "", text))
    (told,) = map(str, check_index(Index(str(root))))
    assert "(PEP 658)" in told
    core = next((root / "files/2.6").glob("torch-*.whl"))
    core.write_bytes(core.read_bytes() + b"x")
    assert "the link says" in "\n".join(map(str, check_index(Index(str(root)))))


def test_a_statement_of_another_file_is_not_published(dist: Path, tmp_path: Path) -> None:
    """It lies there from before the wheel was built again."""
    (core,) = dist.glob("torch-*.whl")
    provenance.make_key(tmp_path / "release.key")
    provenance.sign_wheel(wheel.read_wheel(core), tmp_path / "release.key")
    make_pair(dist, series=SERIES_B)
    with pytest.raises(DecoupleError, match=r"intoto\.json: a statement of another file") as failed:
        site.build_site(dist, tmp_path / "site")
    assert failed.value.next_step and f"decouple index sign {core}" in failed.value.next_step
    assert not (tmp_path / "site/files").exists()
    provenance.sign_wheel(wheel.read_wheel(core), tmp_path / "release.key")
    assert len(site.build_site(dist, tmp_path / "site").added) == 2


def test_check_names_a_link_that_leads_nowhere(dist: Path, tmp_path: Path) -> None:
    root = tmp_path / "site"
    site.build_site(dist, root)
    next((root / "files/2.6").glob("torch_cuda-*.whl")).unlink()
    assert "leads nowhere" in "\n".join(str(fault) for fault in check_index(Index(str(root))))


def test_check_names_the_core_that_a_site_lacks(dist: Path, tmp_path: Path) -> None:
    """An index for CPUs that lists nothing is not there."""
    next(dist.glob("torch-*.whl")).unlink()
    site.build_site(dist, tmp_path / "site")
    (told,) = map(str, check_site(Index(str(tmp_path / "site"))))
    assert told.startswith("torch_cuda-2.6.0+cu124.1-py3-none-any.whl: needs torch==2.6.0+decoupled.1, which no page")
    assert not (tmp_path / "site/cpu").exists()


def test_check_names_bindings_whose_core_is_of_another_python(tmp_path: Path) -> None:
    """It said that every link holds, and pip found no torch for Python 3.13."""
    for python in ("cp311-cp311", "cp313-cp313t"):
        make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", tag=f"{python}-linux_x86_64")
    pin, tag = ("torch==2.6.0+decoupled.1",), "cp313-cp313-linux_x86_64"
    make_wheel(tmp_path / "dist", "torch-cuda", "2.6.0+cu124.1", requires=pin, cuda="12.4", tag=tag)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    (told,) = map(str, check_site(Index(str(tmp_path / "site"))))
    assert told.startswith(f"torch_cuda-2.6.0+cu124.1-{tag}.whl: needs torch==2.6.0+decoupled.1, which no page")


@pytest.mark.parametrize("core", ["cp313-cp313t-manylinux_2_28_x86_64", "cp313-cp313-linux_aarch64"])
def test_a_patched_core_of_another_machine_is_in_nobodys_way(tmp_path: Path, core: str) -> None:
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", tag=core)
    over, tag = ("torch==2.6.0",), "cp313-cp313-manylinux_2_28_x86_64"
    make_wheel(tmp_path / "dist", "torch-cuda", "2.6.0+cu124.official", requires=over, cuda="12.4", tag=tag)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    assert check_site(Index(str(tmp_path / "site"))) == []


def test_a_site_for_an_unmodified_torch_needs_no_core(tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist", "torch-cuda", "2.6.0+cu124.official", requires=("torch==2.6.0",), cuda="12.4")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    assert check_site(Index(str(tmp_path / "site"))) == []


def test_a_site_has_no_patched_core_for_bindings_that_want_an_unmodified_torch(dist: Path, tmp_path: Path) -> None:
    """pip took that core for them, since it is a torch of the release, and the import was refused."""
    root, core = tmp_path / "site", next(dist.glob("torch-2*.whl"))
    site.build_site(dist, root)
    over = publish_beside_patched(tmp_path / "over", root)
    (told,) = map(str, check_site(Index(str(root))))
    assert told.startswith(f"{over.name}: for an unmodified torch (torch==2.6.0), and pip takes {core.name} of this")
    for folder in (over.parent, dist):
        with pytest.raises(DecoupleError, match=f"for an unmodified torch.* and pip would take {re.escape(core.name)}"):
            site.build_site(folder, root)
    site.yank_file(root, core.name, "pip takes it all the same, where it is the only torch")
    assert [str(fault) for fault in check_site(Index(str(root)))] == [told]
    site.yank_file(root, over.name, "moved to a site of its own")
    site.build_site(dist, root)
    assert check_site(Index(str(root))) == []


def test_publishing_again_mends_a_damaged_metadata(dist: Path, tmp_path: Path) -> None:
    """It was a fault of decouple's own, since it is asked which torch the published bindings want."""
    root = tmp_path / "site"
    site.build_site(dist, root)
    next((root / "files/2.6").glob("torch_cuda-*.metadata")).write_bytes(b"Requires-Dist: \xff")
    assert check_site(Index(str(root)))
    site.build_site(dist, root)
    assert check_site(Index(str(root))) == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[FaultyServer]:
    """A site with one core wheel of 32 MiB on a web server."""
    many = {f"torch/lib/{number}.so": bytes([number]) * (1 << 20) for number in range(32)}
    make_wheel(tmp_path / "dist", "torch", "2.6.0+decoupled.1", extra_members=many)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    with FaultyServer({"/": tmp_path / "site"}) as server:
        for path in (tmp_path / "site/simple").rglob("index.html"):
            folder = path.parent.relative_to(tmp_path / "site").as_posix()
            server.files[f"/{folder}/"] = path
        yield server


#: In a process of its own, so that what the server and other tests hold counts for nothing.
MEASURED_CHECK = """
import sys, tracemalloc
from decouple.index.check import check_index, check_site
from decouple.index.remote import Index
tracemalloc.start()
faults = check_index(Index(sys.argv[1]))
print(*faults, tracemalloc.get_traced_memory()[1])
"""


def test_a_remote_wheel_is_checked_without_being_held_in_memory(served: FaultyServer) -> None:
    command = [sys.executable, "-c", MEASURED_CHECK, served.url("/simple/")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.strip().isdecimal() and int(told) < 16 << 20, f"faults and the most bytes held: {told}"


def test_a_remote_wheel_longer_than_promised_is_not_read_to_its_end(served: FaultyServer) -> None:
    (wheel_path,) = (path for path in _files(served) if path.endswith(".whl"))
    real = _files(served)[wheel_path].read_bytes()
    served.files[wheel_path] = real + bytes(64 << 20)
    (fault,) = check_index(Index(served.url("/simple/")))
    assert f"more than {len(real)} bytes" in str(fault)


def test_remote_bytes_that_changed_are_named_by_their_sha256(served: FaultyServer) -> None:
    (wheel_path,) = (path for path in _files(served) if path.endswith(".whl"))
    served.fault(wheel_path, wrong_bytes())
    (fault,) = check_index(Index(served.url("/simple/")))
    assert "the link says" in str(fault)


def test_the_page_for_every_address_is_no_statement_of_an_unsigned_wheel(dist: Path, tmp_path: Path) -> None:
    """Each was "a statement of another file, or none"."""
    site.build_site(dist, tmp_path / "site")
    with CatchAllServer({"/": tmp_path / "site"}) as server:
        assert check_index(Index(server.url("/simple/"))) == []


@pytest.mark.parametrize(("code", "faults"), [(404, 0), (410, 0), (403, 0), (500, 1), (401, 1)])
def test_a_statement_that_a_server_fails_to_give_is_not_one_that_is_not_there(
    dist: Path, tmp_path: Path, code: int, faults: int
) -> None:
    """S3 has 403 for what is not there."""
    site.build_site(dist, tmp_path / "site")
    with CatchAllServer({"/": tmp_path / "site"}) as server:
        server.fault("/files/2.6/torch-2.6.0+decoupled.1-py3-none-any.whl.intoto.json", status(code))
        told = [fault.what for fault in check_index(Index(server.url("/simple/")))]
    assert len(told) == faults
    assert all(f".intoto.json: the server answers {code} " in what for what in told)


def _files(server: FaultyServer) -> dict[str, Path]:
    """What the server has, by address."""
    root = server.files["/"]
    assert isinstance(root, Path)
    return {f"/{path.relative_to(root).as_posix()}": path for path in root.rglob("*")}


@pytest.mark.parametrize("member", ["../evil.py", "/etc/evil", "a/../../evil.py", "C:/evil.py", "a\\..\\evil.py"])
def test_a_wheel_that_leaves_site_packages_is_refused(tmp_path: Path, member: str) -> None:
    path = make_wheel(tmp_path, "torch", "2.6.0+decoupled.1", extra_members={member: b"x"})
    with pytest.raises(DecoupleError, match="leaves the folder"):
        wheel.read_wheel(path)


def test_a_manifest_of_another_wheel_is_refused(tmp_path: Path) -> None:
    other = wheel.read_wheel(make_wheel(tmp_path / "other", "torch", "2.6.0+decoupled.1"))
    path = make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124.1", manifest=other.manifest_bytes)
    with pytest.raises(DecoupleError, match=r"torch 2\.6\.0"):
        wheel.read_wheel(path)


def test_a_signed_statement_is_of_this_wheel_by_this_key(tmp_path: Path) -> None:
    core, cuda = (wheel.read_wheel(path) for path in make_pair(tmp_path))
    public = provenance.make_key(tmp_path / "release.key")
    other = provenance.make_key(tmp_path / "other.key")
    signed = provenance.sign_wheel(core, tmp_path / "release.key").read_bytes()
    said = provenance.verify_statement(core, signed, public)
    assert said["subject"][0]["digest"]["sha256"] == core.sha256
    with pytest.raises(DecoupleError, match="not signed by"):
        provenance.verify_statement(core, signed, other)
    with pytest.raises(DecoupleError, match="of another file"):
        provenance.verify_statement(cuda, signed, public)
    with pytest.raises(DecoupleError, match="not signed by"):
        provenance.verify_statement(core, signed.replace(b'"payload": "', b'"payload": "eyJ9'), public)


def test_a_wheel_stays_signed_when_it_is_published_again_without_its_statement(dist: Path, tmp_path: Path) -> None:
    """A CI run without the key did that: the statement lay there, and the front page named it no more."""
    path, key = next(dist.glob("torch-*.whl")), tmp_path / "release.key"
    provenance.make_key(key)
    statement = provenance.sign_wheel(wheel.read_wheel(path), key)
    site.build_site(dist, tmp_path / "site")
    statement.unlink()
    site.build_site(dist, tmp_path / "site")
    (named,) = re.findall(r'href="([^"]+\.intoto\.json)"', (tmp_path / "site/index.html").read_text())
    assert (tmp_path / "site" / named.replace("%2B", "+")).is_file()


def test_a_private_key_whose_public_half_a_kill_cut_off_gets_it(tmp_path: Path) -> None:
    private = tmp_path / "release.key"
    public = provenance.make_key(private)
    before = private.read_bytes(), public.read_bytes()
    public.unlink()
    assert provenance.make_key(private) == public
    assert (private.read_bytes(), public.read_bytes()) == before
    with pytest.raises(UsageError, match="never replaced"):
        provenance.make_key(private)
    private.unlink()
    with pytest.raises(UsageError, match="never replaced"):
        provenance.make_key(private)
