"""operators.yaml -> C++, with the torchgen of the PyTorch that is installed (contract item 48)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import backend_env

LAYER = backend_env.THIRD_DEVICE / "layer"
GENERATE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from backend_build.operators import OperatorsError, generate
results = []
for path in map(Path, sys.argv[2:]):
    try:
        made = generate(path, Path(sys.argv[1]) / "autocast.yaml")
        results.append([made.header, made.source])
    except OperatorsError as error:
        results.append(str(error))
print(json.dumps(results))
"""


def generated(interpreter: Path, *paths: Path) -> list[object]:
    """What each file makes: [header, source], or the error's text. One process, for torchgen takes seconds to read."""
    done = subprocess.run(
        [str(interpreter), "-c", GENERATE, str(LAYER), *map(str, paths)],
        capture_output=True, text=True, env=backend_env.build_environment(interpreter),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results: list[object] = json.loads(done.stdout)
    return results


def test_the_same_yaml_gives_the_same_bytes(interpreter: Path) -> None:
    path = backend_env.THIRD_DEVICE / "torch_sim" / "operators.yaml"
    first, again = generated(interpreter, path, path)
    assert first == again == generated(interpreter, path)[0]
    assert isinstance(first, list), first
    header, source = first
    assert (
        "at::Tensor & mm_out(const at::Tensor & self, const at::Tensor & mat2, at::Tensor & out);  // mm.out" in header
    )
    assert 'm.impl("mm.out", TORCH_FN(wrap_mm_out));' in source
    assert "REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &sim::abs_kernel)" in source
    assert "KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)" in source
    assert 'third_device::check_one_device("mm.out", {&self, &mat2, &out});' in source
    for output in ("grad_input", "out"):  # an operator runs where its output is
        assert f"guard(at::device_of({output}))" in source


def test_a_key_with_nothing_after_it_is_as_none(interpreter: Path, tmp_path: Path) -> None:
    texts = ("namespace: acme\n", "namespace: acme\nkernels:\nstubs:\ncustom:\nfallback:\nautocast:\n")
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    without, empty = generated(interpreter, *paths)
    assert isinstance(empty, list) and empty == without


BAD = {
    "kernels: [mm.uot]": "no operator 'mm.uot'; did you mean",
    "kernels: [mm.out, mm.out]": "'mm.out' is there twice",
    "kernels: [{op: mm.out, dtypes: [float31]}]": "unknown dtype 'float31'",
    "kernels: [{op: mm.out, dtype: [float32]}]": "unknown key 'dtype'",
    "kernels: [mm.out]\nstubs: [{op: mm.out, stub: s, header: h, kernel: k}]": "implemented twice",
    "stubs: [{op: abs.out, stub: abs_stub, header: h}]": "needs 'kernel'",
    "stubs: [{op: abs, stub: s, header: h, kernel: k}]": "name the .out variant",
    "custom: [{func: 'swish(Tensor self -> Tensor'}]": "not a schema",
    "custom: [{func: swish(Tensor self) -> Tensor}]": "needs 'like'",
    "custom: [{func: swish.two(Tensor self) -> Tensor, like: self}]": "overloads are not possible",
    "custom: [{func: f(Tensor a) -> Tensor, like: a}, {func: 'f(Tensor a, Tensor b) -> Tensor', like: a}]": "overloads",
    "fallback: {deny: [nothing]}": "no operator 'nothing'",
    "kernels: [mm.out]\nfallback: {deny: [mm.out]}": "has a kernel",
    "autocast: {fp8: [mm]}": "unknown policy 'fp8'",
    "autocast: {fp32: [nothing]}": "no operator 'nothing'",
    "kernel: [mm.out]": "unknown key 'kernel'",
    "kernels: {op: mm.out}": "kernels: a list is needed",
    "kernels: [{op: mm.out, dtypes: float32}]": "dtypes: a list is needed, not 'float32'",
    "fallback: [conv2d]": "fallback: a mapping is needed",
    "autocast: [mm]": "autocast: a mapping is needed",
}


def test_mistakes_are_named(interpreter: Path, tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(BAD):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(f"namespace: acme\n{text}\n")
    (tmp_path / "nameless.yaml").write_text("kernels: [mm.out]\n")
    (tmp_path / "broken.yaml").write_text("namespace: [\n")
    results = generated(interpreter, *paths, tmp_path / "nameless.yaml", tmp_path / "broken.yaml")
    for result, path, expected in zip(
        results, [*paths, "nameless.yaml", "broken.yaml"], [*BAD.values(), "C++ identifier", "not YAML"], strict=True
    ):
        assert isinstance(result, str) and expected in result and str(path) in result
