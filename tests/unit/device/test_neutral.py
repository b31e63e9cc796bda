"""A program written for ``torch.cuda``, rewritten for any device: what becomes other, and what is told as left."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.cli import main
from decouple.device.neutral import rewrite_program
from decouple.flows.neutral import NeutralRequest, rewrite_programs

ACCELERATOR = "torch.accelerator.current_accelerator()"
PAIRS = {
    "torch.cuda.is_available()": "torch.accelerator.is_available()",
    "torch.cuda.current_device()": "torch.accelerator.current_device_index()",
    "torch.cuda.Stream(priority=-1)": "torch.Stream(priority=-1)",
    "torch.cuda.memory.memory_allocated(0)": "torch.get_device_module().memory_allocated(0)",
    'torch.device("cuda")': ACCELERATOR,
    "torch.device('cuda:1')": "torch.device(1)",
    'torch.device("cuda", rank)': "torch.device(rank)",
    'torch.device("cuda", index=rank)': "torch.device(rank)",
    'torch.device(type="cuda", index=1)': "torch.device(1)",
    'torch.device(f"cuda:{rank}")': "torch.device(int(rank))",
    'torch.device(f"cuda:{int(rank)}")': "torch.device(int(rank))",
    'torch.ones(2, device=f"cuda:{os.environ[name]}")': "torch.ones(2, device=torch.device(int(os.environ[name])))",
    'DataLoader(data, pin_memory_device="cuda")': f"DataLoader(data, pin_memory_device={ACCELERATOR}.type)",
    'torch.device(f"cuda:{torch.cuda.current_device()}")': "torch.device(torch.accelerator.current_device_index())",
    "torch.cuda.device(1)": "torch.accelerator.device_index(1)",
    "torch.cuda.device(None)": "torch.accelerator.device_index(None)",
    "torch.cuda.device(x.device)": "torch.get_device_module().device(x.device)",
    'torch.cuda.device(torch.device("cuda:1"))': "torch.get_device_module().device(torch.device(1))",
    "torch.cuda.Event(enable_timing=True)": "torch.Event(enable_timing=True)",
    'torch.device("cuda" if fast else "cpu")': f'torch.device({ACCELERATOR}.type if fast else "cpu")',
    "x.cuda()": f"x.to({ACCELERATOR})",
    "x.cuda(2, non_blocking=True)": "x.to(2, non_blocking=True)",
    "x.cuda(non_blocking=True, device=d)": "x.to(d, non_blocking=True)",
    'x.cuda().to("cuda:0")': f"x.to({ACCELERATOR}).to(torch.device(0))",
    'torch.ones(2, device="cuda")': f"torch.ones(2, device={ACCELERATOR})",
    'torch.load(f, map_location="cuda:0")': "torch.load(f, map_location=torch.device(0))",
    'torch.load(f, map_location="cuda:0").cuda()': f"torch.load(f, map_location=torch.device(0)).to({ACCELERATOR})",
    "map(lambda t: t.cuda(), tensors)": f"map(lambda t: t.to({ACCELERATOR}), tensors)",
    "x.is_cuda": '(x.device.type != "cpu")',
    "x.cuda().is_cuda": f'(x.to({ACCELERATOR}).device.type != "cpu")',
    "torch.ones(2).cuda().is_cuda": f'(torch.ones(2).to({ACCELERATOR}).device.type != "cpu")',
    'f"{x.is_cuda}"': "f\"{(x.device.type != 'cpu')}\"",
    "f'''{x.is_cuda}'''": "f'''{(x.device.type != \"cpu\")}'''",
    "f\"{x.device.type == 'cuda'}\"": "f\"{x.device.type != 'cpu'}\"",
    'x.device.type == "cuda"': 'x.device.type != "cpu"',
    'x.device.type != "cuda"': 'x.device.type == "cpu"',
    'torch.autocast("cuda", torch.half)': f"torch.autocast({ACCELERATOR}.type, torch.half)",
    "torch.cuda.amp.autocast(True)": f"torch.amp.autocast({ACCELERATOR}.type, enabled=True)",
    "torch.cuda.amp.GradScaler()": f"torch.amp.GradScaler({ACCELERATOR}.type)",
    'torch.distributed.init_process_group("nccl")': "torch.distributed.init_process_group("
    f"torch.distributed.get_default_backend_for_device({ACCELERATOR}))",
}


@pytest.mark.parametrize(("said", "meant"), PAIRS.items())
def test_what_names_cuda_becomes_neutral(said: str, meant: str) -> None:
    done = rewrite_program(f"import torch\ny = {said}  # kept\n")
    assert done.text == f"import torch\ny = {meant}  # kept\n" and done.changes and not done.left
    ast.parse(done.text)


@pytest.mark.parametrize(
    "text",
    [
        'print("the cuda kernels")\n',  # told
        "import torch\nx = torch.cuda.CUDAGraph()\n",
        "import torch\ntorch.backends.cudnn.benchmark = True\n",
        "import torch\nprint(torch.version.cuda)\n",
        "import torch\nkinds = [torch.profiler.ProfilerActivity.CUDA]\n",
        "from torch.cuda import is_available\n",
        'parser.add_argument("--device", default="cuda")\n',
        'def fill(device="cuda"):\n    pass\n',
        'if device == "cuda":\n    pass\n',
        "x.is_cuda = y\n",
        "x.is_cuda += y\n",
        "x.is_cuda: bool = y\n",
        "del x.is_cuda\n",
        "for x.is_cuda in y:\n    pass\n",
        "x.is_cuda()\n",
        "y = f\"{f'{x.is_cuda}'}\"\n",  # no quote is left for Python 3.11
        "import torch\n@torch.cuda.amp.autocast\ndef f(): pass\n",
        "import torch\nmake = torch.cuda.amp.GradScaler\n",
        "import torch\nx = torch.cuda.amp.autocast(*y)\n",
        "from torch.cuda.amp import autocast\n@autocast\ndef f(): pass\n",
        "from torch.cuda.amp import GradScaler, custom_fwd\nx = GradScaler()\n",
        "import torch\nlib.run(x.data_ptr(), torch.cuda.current_stream().cuda_stream)\n",
        "import torch\nlib.run(s.cuda_stream)\n",
        "import torch\nlib.run(e.cuda_event)\n",
        "import torch\ne = torch.cuda.Event(True)\n",
        "import torch\ne = torch.cuda.Event(enable_timing=True, external=True)\n",
        "import torch\ns = torch.cuda.Stream(None, -1)\n",
        "import torch\ns = torch.cuda.Stream(**how)\n",
        "import torch\ntorch.cuda.synchronize(device=x.device)\n",
        "import torch\ny = x.cuda(0, True)\n",
        "import torch\ny = x.cuda(0, **how)\n",
        "import torch\ny = x.cuda(None)\n",
        "import torch\ny = x.cuda(device=None)\n",
        "import torch\ny = torch.load(f, map_location=lambda storage, place: storage.cuda(1))\n",
        "import torch\ny = torch.load(f, lambda storage, place: storage.cuda())\n",
    ],
)
def test_what_cannot_be_rewritten_is_told_with_its_line(text: str) -> None:
    done = rewrite_program(text)
    assert done.text == text and not done.changes
    (left,) = done.left
    assert "cud" in text.splitlines()[left.line - 1].lower() and left.text in text and left.reason


@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.comm.gather(x).cuda()",
        "f(torch.cuda.CUDAGraph()).is_cuda",
        "x.cuda(torch.cuda.unknown())",
        'torch.device("cuda", torch.cuda.unknown())',
        'torch.device(f"cuda:{torch.cuda.unknown()}")',
    ],
)
def test_what_stands_in_a_place_that_is_rewritten_is_told_too(text: str) -> None:
    done = rewrite_program(f"import torch\ny = {text}\n")
    assert done.changes == 1 and "torch.cuda" in done.text
    assert [left.line for left in done.left] == [2]


def test_what_a_program_calls_a_handle_itself_is_its_own() -> None:
    done = rewrite_program("import torch\nself.cuda_stream = torch.cuda.Stream()\nprint(self.cuda_stream)\n")
    assert done.text.endswith("self.cuda_stream = torch.Stream()\nprint(self.cuda_stream)\n") and not done.left


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    import torch\n",
        "class Job:\n    import torch as th\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
    ],
    ids=["function", "class", "type checkers"],
)
def test_an_import_that_other_places_do_not_see_gives_them_no_name(text: str) -> None:
    made = rewrite_program(f"{text}def move(x):\n    return x.cuda()\n").text
    assert f"return x.to({ACCELERATOR})" in made
    assert "import torch\n" in [line for line in made.splitlines(keepends=True) if not line.startswith(" ")]


def test_other_text_is_no_device() -> None:
    text = '"""About cuda."""\nimport torch\ny = torch.einsum("abcd", x)\nself.cpu("there")\nbarracuda = 1\n'
    done = rewrite_program(text)
    assert (done.text, done.changes, done.left) == (text, 0, ())


def test_names_follow_the_program_s_imports() -> None:
    text = "import torch as th\nfrom torch.cuda.amp import autocast as cast\nwith cast():\n    th.cuda.synchronize()\n"
    assert rewrite_program(text).text == (
        "import torch as th\nfrom torch.amp import autocast as cast\n"
        "with cast(th.accelerator.current_accelerator().type):\n    th.accelerator.synchronize()\n"
    )
    made = rewrite_program("from torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n").text
    assert "import torch\n" in made and f"autocast({ACCELERATOR}.type)" in made
    own = "class torch:\n    pass\ntorch.cuda.synchronize()\n"
    assert rewrite_program(own).text == own  # no torch of PyTorch's


def test_a_name_of_amp_that_is_only_asked_about_becomes_neutral_too() -> None:
    text = (
        "import torch\nfrom torch.cuda.amp import GradScaler\nx = GradScaler()\n"
        "def f(x: GradScaler | None, y: torch.cuda.amp.GradScaler): isinstance(x, (int, GradScaler))\n"
    )
    done = rewrite_program(text)
    assert "torch.cuda" not in done.text and f"GradScaler({ACCELERATOR}.type)" in done.text and not done.left


def test_an_answer_that_the_program_sets_itself_stays_its_own() -> None:
    text = "self.is_cuda = x.is_cuda\nprint(self.is_cuda)\n"
    done = rewrite_program(f"import torch\n{text}")
    assert done.text.endswith('self.is_cuda = (x.device.type != "cpu")\nprint(self.is_cuda)\n')
    assert [left.line for left in done.left] == [2, 3]


def test_a_device_may_be_named() -> None:
    text = "import torch\nprint(torch.cuda.get_device_name(0))\n"
    assert "torch.acme.get_device_name(0)" in rewrite_program(text, device="acme").text


@pytest.mark.parametrize("device", ["acme:0", "a b", "a-b", "class"])
def test_a_device_is_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\ntorch.cuda.empty_cache()\n")
    assert main(["neutral", "--device", device, "--write", str(program)]) == 2
    assert repr(device) in capsys.readouterr().err and "torch.cuda" in program.read_text()


def test_what_was_rewritten_has_nothing_more_to_rewrite() -> None:
    text = "import torch\n" + "".join(f"y = {said}\n" for said in PAIRS)
    again = rewrite_program(rewrite_program(text).text)
    assert (again.changes, again.left) == (0, ())


def test_files_change_only_when_asked(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("import torch\r\ntorch.cuda.synchronize()\r\n", newline="")
    two.write_text("# coding: latin-1\nimport torch\nt = 'é', torch.cuda.device_count()\n", encoding="latin-1")
    one.chmod(0o755)
    before = one.read_bytes(), two.read_bytes()
    shown = rewrite_programs(NeutralRequest((one, two)))
    assert all("+" in done.diff and done.changes == 1 for done in shown)
    assert (one.read_bytes(), two.read_bytes()) == before
    rewrite_programs(NeutralRequest((one, two), write=True))
    assert one.read_bytes() == b"import torch\r\ntorch.accelerator.synchronize()\r\n"
    assert two.read_text(encoding="latin-1").endswith("t = 'é', torch.accelerator.device_count()\n")
    assert one.stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (:\n", r"bad\.py:1"),
        ("match x:\n    case y.is_cuda:\n        pass\n", r"bad\.py: rewritten, this line is no Python: case \(y"),
    ],
    ids=["does not parse", "would not any more"],
)
def test_a_file_that_does_not_parse_changes_none(tmp_path: Path, text: str, said: str) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import torch\ntorch.cuda.synchronize()\n")
    bad.write_text(text)
    with pytest.raises(DecoupleError, match=said):
        rewrite_programs(NeutralRequest((good, bad), write=True))
    assert "torch.cuda" in good.read_text()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="missing"):
        rewrite_programs(NeutralRequest((tmp_path / "missing.py",)))


def test_the_command_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\ntorch.cuda.synchronize()\n")
    assert main(["neutral", str(program)]) == 0
    said = capsys.readouterr()
    assert "+torch.accelerator.synchronize()" in said.out and "1 places rewritten, 0 lines left" in said.err
    program.write_text("import torch\ng = torch.cuda.CUDAGraph()\n")
    assert main(["neutral", str(program)]) == 1
    assert f"{program}:2: left as it is" in capsys.readouterr().err


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        b"import torch\ntorch.cuda.synchronize()\n",
        b"import torch\n\ntorch.cuda.synchronize()",
        b"import torch\r\ntorch.cuda.synchronize()\r\n",
        b"import torch\rtorch.cuda.synchronize()\r",
        "import torch\n\f\nx = '\x1c\u2028'\ntorch.cuda.synchronize()\n".encode(),
        b"\xef\xbb\xbfimport torch\ntorch.cuda.synchronize()\n",
        b"# coding: latin-1\nimport torch\nt = '\xe9'; torch.cuda.synchronize()\n",
        b"import torch\nt = 'https://me:word@example.org'; torch.cuda.synchronize()\n",
    ],
    ids=["plain", "no newline at the end", "CRLF", "CR", "form feed", "byte order mark", "latin-1", "password"],
)
def test_git_applies_the_diff_that_is_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    data: bytes,
    absolute: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "a b/program.py"
    program.parent.mkdir()
    program.write_bytes(data)
    name = str(program if absolute else program.relative_to(tmp_path))
    assert main(["neutral", name]) == 0
    diff = capsysbinary.readouterr().out
    assert main(["neutral", "--write", name]) == 0
    written = program.read_bytes()
    program.write_bytes(data)
    subprocess.run(["git", "apply"], input=diff, cwd=tmp_path, check=True)
    assert program.read_bytes() == written != data


@pytest.mark.parametrize("name", ["../here/program.py", "../beside/program.py", "one/../program.py"])
def test_git_applies_the_diff_of_a_program_that_is_named_by_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    """git refuses ".." in the diff of a file; what is in another folder is named from the root, as absolutely."""
    for folder in ("here/one", "beside"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    program = (tmp_path / "here" / name).resolve()
    program.write_text("import torch\ntorch.cuda.synchronize()\n")
    assert main(["neutral", name]) == 0
    place = tmp_path / "here" if program.is_relative_to(tmp_path / "here") else Path("/")
    subprocess.run(["git", "apply"], input=capsysbinary.readouterr().out, cwd=place, check=True)
    assert "torch.accelerator" in program.read_text()


def test_without_libcst_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "libcst.py").write_text("raise ImportError\n")
    program = tmp_path / "program.py"
    program.write_text("import torch\n")
    words = ["neutral", str(program)]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from decouple.cli import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "[neutral]'" in done.stderr
