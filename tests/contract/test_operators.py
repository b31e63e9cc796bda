"""operators.yaml -> C++, with the torchgen of the PyTorch that is installed (contract item 48)."""

from __future__ import annotations

import json
import re
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


def generate_text(interpreter: Path, folder: Path, text: str) -> list[str]:
    """Header and source that a file of this text makes."""
    path = folder / "operators.yaml"
    path.write_text(text)
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    return made


def test_the_same_yaml_gives_the_same_bytes(interpreter: Path) -> None:
    path = backend_env.THIRD_DEVICE / "template" / "operators.yaml"
    first, again = generated(interpreter, path, path)
    assert first == again == generated(interpreter, path)[0]
    assert isinstance(first, list), first
    header, source = first
    assert (
        "at::Tensor & mm_out(const at::Tensor & self, const at::Tensor & mat2, at::Tensor & out);  // mm.out" in header
    )
    assert 'm.impl("mm.out", TORCH_FN(wrap_mm_out));' in source
    assert "REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &newdevice::abs_kernel)" in source
    assert "KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)" in source
    assert 'third_device::check_one_device("mm.out", third_device::OperandDevices(self, mat2, out));' in source
    for output in ("grad_input", "out"):  # an operator runs where its output is
        assert f"guard_(at::device_of({output}))" in source


def test_a_kernel_that_takes_a_gradient_away_raises_in_backward(interpreter: Path, tmp_path: Path) -> None:
    """PyTorch composes the norms and matrix_power of others, which have gradients; it has formulas of the other two."""
    text = (
        "namespace: acme\nkernels: [layer_norm, linear, relu, {op: group_norm, backward: group_norm_backward}]\n"
        "custom: [{func: 'power(Tensor self, int n) -> Tensor', like: self}]\n"
        "reroute: [{op: matrix_power, to: 'acme::power'}]\n"
    )
    source = generate_text(interpreter, tmp_path, text)[1]
    refused = re.findall(r'm.impl\("(\w+)", torch::autograd::autogradNotImplementedFallback\(\)\);', source)
    assert refused == ["layer_norm", "matrix_power"]
    assert "#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>" in source


def test_the_layer_is_told_which_operators_a_backend_has(interpreter: Path, tmp_path: Path) -> None:
    """It has some of these, too, and computes a convolution of types that the kernel does not take."""
    text = (
        "namespace: acme\nkernels: [{op: convolution_overrideable, dtypes: [float32]}, {op: relu, backward: relu_back},"
        " {op: zero_, key: SparsePrivateUse1, kernel: zero_sparse}]\nfallback: {deny: [sort]}\n"
    )
    source = generate_text(interpreter, tmp_path, text)[1]
    assert re.findall(r'\{c10::DispatchKey::(\w+), "([\w.]+)"\}', source) == [
        ("PrivateUse1", "convolution_overrideable"),
        ("PrivateUse1", "relu"),
        ("PrivateUse1", "sort"),
        ("AutogradPrivateUse1", "relu"),
        ("SparsePrivateUse1", "zero_"),
    ]
    assert source.count("return third_device::host::") == 1 and "return third_device::host::convolution_over" in source


def test_the_list_of_what_the_layer_computes_is_that_of_its_header() -> None:
    layer = backend_env.THIRD_DEVICE / "layer"
    header = (layer / "include" / "third_device" / "host_operators.h").read_text()
    (listed,) = re.findall(r"^HOST = \((.*?)^\)", (layer / "backend_build" / "operators.py").read_text(), re.M | re.S)
    declared = re.findall(r"TD_API [\w:&<>, ]+? (\w+)\(", header)
    assert declared[0] == "computes" and sorted(declared[1:]) == sorted(re.findall(r'"(\w+)"', listed))


def test_a_kernel_may_be_for_the_newer_types_of_numbers(interpreter: Path, tmp_path: Path) -> None:
    text = "namespace: acme\nkernels: [{op: relu, dtypes: [float8_e4m3fn, uint16, complex32]}]\n"
    source = generate_text(interpreter, tmp_path, text)[1]
    for constant in ("Float8_e4m3fn", "UInt16", "ComplexHalf"):
        assert f"self.scalar_type() == at::k{constant}" in source


def test_a_key_with_nothing_after_it_is_as_none(interpreter: Path, tmp_path: Path) -> None:
    texts = ("namespace: acme\n", "namespace: acme\nkernels:\nstubs:\ncustom:\nfallback:\nautocast:\n")
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    without, empty = generated(interpreter, *paths)
    assert isinstance(empty, list) and empty == without


MORE = """
namespace: acme
kernels:
  - {op: gelu, kernel: fast_gelu, backward: fast_gelu_backward, dtypes: [float32]}
  - {op: max.dim, dtypes: [float32], contiguous: true}
  - {op: cat, dtypes: [float32, float16]}
  - {op: add.Tensor, key: SparsePrivateUse1, kernel: add_sparse}
reroute:
  - {op: silu, to: 'acme::scaled'}
  - {op: mish_, to: silu_}
custom:
  - {func: 'parts.at(Tensor self, int at) -> (Tensor, Tensor)', meta: parts_shapes, backward: parts_backward}
  - {func: 'double_(Tensor(a!) self) -> Tensor(a!)'}
  - {func: 'halve.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)'}
  - {func: scaled(Tensor self) -> Tensor, like: self, python: scaled}
  - {func: 'scaled.by(Tensor self, float by) -> Tensor', like: self}
"""


def test_every_form_of_an_operator_has_its_declaration(interpreter: Path, tmp_path: Path) -> None:
    """That these compile and compute is tested by a scaffolded backend (test_backend.py)."""
    header, source = generate_text(interpreter, tmp_path, MORE)
    for declared in (
        "at::Tensor fast_gelu(const at::Tensor & self, c10::string_view approximate);  // gelu",
        "std::vector<at::Tensor> fast_gelu_backward(const at::Tensor& grad, const at::Tensor& self);",
        "::std::tuple<at::Tensor,at::Tensor> max(const at::Tensor & self, int64_t dim, bool keepdim);  // max.dim",
        "at::Tensor add_sparse(const at::Tensor & self, const at::Tensor & other, const at::Scalar & alpha);"
        "  // add.Tensor of SparsePrivateUse1",
        "::std::tuple<at::Tensor,at::Tensor> parts_shapes(const at::Tensor & self, int64_t at);",
        "std::vector<at::Tensor> parts_backward(at::TensorList grads, const at::Tensor& self);",
        "at::Tensor & double_(at::Tensor & self);",
        "at::Tensor & halve_out(const at::Tensor & self, at::Tensor & out);",
        "at::Tensor scaled(const at::Tensor & self, double by);",
    ):
        assert declared.replace("c10::string_view", "") in header.replace("c10::string_view", ""), declared
    assert "third_device::are_plain(tensors, false, {at::kFloat, at::kHalf})" in source
    assert "return at::silu_(self);" in source
    assert source.count('m.impl("scaled.by"') == 2  # on the device, and without data
    wrappers = {part.partition("(")[0]: part.partition("\n}")[0] for part in source.split(" guarded_")[1:]}
    for wrapper, tensor in {
        "custom_scaled_by": "self",
        "custom_halve_out": "out",
    }.items():
        assert f"guard_(at::device_of({tensor}));" in wrappers[wrapper], (
            "vendors' functions run where their tensors are"
        )
    assert (
        "guard_(third_device::OperandDevices(self, other).first_or_none());" in wrappers["SparsePrivateUse1_add_Tensor"]
    )
    assert '{"scaled", "acme::scaled"}' in source


def test_an_operator_of_its_own_gets_tensors_of_one_device(interpreter: Path, tmp_path: Path) -> None:
    """Its kernel would take an address of the host, or of another device, for one of its own."""
    text = (
        "namespace: acme\ncustom:\n"
        "  - {func: 'scale(Tensor self, Tensor? by=None) -> Tensor', like: self}\n"
        "  - {func: 'total(Tensor[] all) -> Tensor', meta: total_shape}\n"
        "  - {func: 'twice(Tensor self) -> Tensor', like: self}\n"
        "  - {func: 'fetch(Tensor self, Tensor lengths) -> Tensor', like: self, elsewhere: true}\n"
    )
    source = generate_text(interpreter, tmp_path, text)[1]
    assert re.findall(r"check_one_device\(.*;", source) == [
        'check_one_device("acme::scale", third_device::OperandDevices::of_any(self, by));',
        'check_one_device("acme::total", third_device::OperandDevices::of_any(all));',
    ]


def test_an_operator_that_takes_tensors_from_anywhere_runs_on_its_device(interpreter: Path, tmp_path: Path) -> None:
    """Its first tensor may be on the CPU: that is no device for the kernel to launch on."""
    text = (
        "namespace: acme\nkernels: [{op: where.self, elsewhere: true}]\ncustom:\n"
        "  - {func: 'fetch(Tensor table, Tensor? at=None) -> Tensor', like: table, elsewhere: true}\n"
        "  - {func: 'store.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)', elsewhere: true}\n"
    )
    source = generate_text(interpreter, tmp_path, text)[1]
    assert re.findall(r"guard_\(third_device::OperandDevices\((.*)\).first_or_none\(\)\);", source) == [
        "condition, self, other",
        "table, at",
        "out, self",
    ]


def test_a_tensor_that_is_written_to_may_be_missing(interpreter: Path, tmp_path: Path) -> None:
    """That the line compiles is tested by a scaffolded backend (test_backend.py)."""
    text = "namespace: acme\ncustom: [{func: 'both(Tensor(a!) self, Tensor(b!)? more=None) -> ()'}]\n"
    header, source = generate_text(interpreter, tmp_path, text)
    assert "void both(at::Tensor & self, const ::std::optional<at::Tensor> & more);" in header
    assert "counted_({self, more.value_or(at::Tensor())});" in source


def test_the_generated_code_takes_no_name_of_an_argument(interpreter: Path, tmp_path: Path) -> None:
    text = (
        "namespace: acme\ncustom:\n"
        "  - {func: 'attend(Tensor context, Tensor made) -> (Tensor, Tensor)', like: [context, made], backward: back}\n"
        "  - {func: 'mark_(Tensor(a!) self, Tensor guard, Tensor counted, Tensor below) -> Tensor(a!)'}\n"
    )
    source = generate_text(interpreter, tmp_path, text)[1]
    kinds = r"(?:auto|AutogradContext\*|OptionalDeviceGuard|CountedWrites|AutoDispatchBelowADInplaceOrView)"
    taken = set(re.findall(rf"{kinds} (\w+)", source))
    assert taken and not taken & {"context", "made", "guard", "counted", "below"}


def test_an_operator_of_its_own_has_its_gradient_for_every_tensor(interpreter: Path, tmp_path: Path) -> None:
    """The tensors of torch.func have no key of the device on 2.6: its gradients would be zeros."""
    source = generate_text(interpreter, tmp_path, MORE)[1]
    blocks = re.findall(r"TORCH_LIBRARY_IMPL\((\w+), (Autograd\w*), m\) \{(.*?)\n\}", source, re.DOTALL)
    assert {(namespace, key): re.findall(r'impl\("([\w.]+)"', block) for namespace, key, block in blocks} == {
        ("acme", "Autograd"): ["parts.at"],
        ("aten", "AutogradPrivateUse1"): ["gelu"],
    }


MAY_BE_MISSING = """
namespace: acme
kernels:
  - {op: linear, backward: linear_backward}
"""


def test_a_tensor_that_may_be_missing_has_a_gradient(interpreter: Path, tmp_path: Path) -> None:
    """Without one a bias is never trained, and nobody says so."""
    header, source = generate_text(interpreter, tmp_path, MAY_BE_MISSING)
    assert (
        "linear_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, "
        "const at::Tensor& bias);"
    ) in header
    assert "save_for_backward({input, weight, bias.value_or(at::Tensor())});" in source
    assert "return {grads[0], grads[1], grads[2]};" in source


POLICIES = {
    "LOWER_PRECISION_FP": "lower_precision_fp",
    "FP32": "fp32",
    "FP32_SET_OPT_DTYPE": "fp32_set_opt_dtype",
    "DIFFERENT_REDISPATCH_SIGNATURE": "fp32",
    "PROMOTE": "promote",
}
"""What upstream's lists are called, and ours."""


def test_autocast_has_every_operator_that_upstream_has(interpreter: Path, tmp_path: Path) -> None:
    path = tmp_path / "operators.yaml"
    path.write_text("namespace: acme\n")
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    asked = subprocess.run(
        [str(interpreter), "-c", "import torch; print(torch.__path__[0])"],
        capture_output=True, text=True, check=True, env=backend_env.build_environment(interpreter),
    )  # fmt: skip
    header = Path(asked.stdout.strip(), "include/ATen/autocast_mode.h").read_text().replace("\\\n", " ")
    listed = 0
    for macro, policy in POLICIES.items():
        (text,) = re.findall(rf"#define AT_FORALL_{macro}\(_\)(.*)", header)
        operators = re.findall(r'"(\w+)\.(\w+)"' if "SIGNATURE" in macro else r"_\((\w+)(?:, (\w+))?\)", text)
        for base, overload in operators:
            words = ", ".join(word for word in (base, overload, policy) if word)
            assert f"KERNEL_PRIVATEUSEONE({words})" in made[1], words
        listed += len(operators)
    assert listed > 100


def test_an_operator_has_the_autocast_policy_that_its_vendor_names(interpreter: Path, tmp_path: Path) -> None:
    """Of two registrations the later would hold: the layer's, in float32."""
    path = tmp_path / "operators.yaml"
    path.write_text("namespace: acme\nautocast: {lower_precision_fp: [mm, layer_norm]}\n")
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    assert re.findall(r"KERNEL_PRIVATEUSEONE\(layer_norm, (\w+)\)", made[1]) == ["lower_precision_fp"]
    assert "(addmm, lower_precision_fp)" not in made[1], "the list is replaced"
    assert "KERNEL_PRIVATEUSEONE(rms_norm, fp32)" in made[1], "the others stay"


def test_a_kernel_for_autocast_takes_the_place_of_a_policy(interpreter: Path, tmp_path: Path) -> None:
    text = "namespace: acme\nkernels: [{op: layer_norm, key: AutocastPrivateUse1, kernel: own_layer_norm}]\n"
    _, source = generate_text(interpreter, tmp_path, text)
    assert source.count('m.impl("layer_norm"') == 1 and "KERNEL_PRIVATEUSEONE(layer_norm" not in source
    assert "KERNEL_PRIVATEUSEONE(rms_norm, fp32)" in source, "the others stay"


ONE_STUB = """
namespace: acme
stubs:
  - {op: add.out, stub: add_stub, header: ATen/native/BinaryOps.h, kernel: add_kernel}
  - {op: sub.out, stub: add_stub, header: ATen/native/BinaryOps.h, kernel: add_kernel, dtypes: [float32]}
"""


def test_operators_of_one_stub_share_its_kernel(interpreter: Path, tmp_path: Path) -> None:
    """ATen's sub is its add of a negative number; a stub that is registered twice does not compile."""
    header, source = generate_text(interpreter, tmp_path, ONE_STUB)
    assert header.count(" add_kernel;") == source.count("REGISTER_PRIVATEUSE1_DISPATCH(add_stub, ") == 1
    assert 'm.impl("add.out"' in source and 'm.impl("sub.out"' in source


def test_a_default_may_be_text(interpreter: Path, tmp_path: Path) -> None:
    path = tmp_path / "operators.yaml"
    path.write_text("""namespace: acme
custom:
  - func: resize(Tensor self, str mode="nearest") -> Tensor
    like: self
""")
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    assert r"""m.def("resize(Tensor self, str mode=\"nearest\") -> Tensor");""" in made[1]


ALL_TYPES = """
namespace: acme
kernels:
  - mm.out
  - {op: index.Tensor, elsewhere: true}
stubs:
  - {op: maximum.out, stub: maximum_stub, header: ATen/native/BinaryOps.h, kernel: maximum_kernel}
"""


def test_an_operand_elsewhere_does_not_reach_a_kernel_of_all_types(interpreter: Path, tmp_path: Path) -> None:
    """ATen lets a number of the CPU pass: x * 2.0 has one. The kernel would take its address for the device's."""
    path = tmp_path / "operators.yaml"
    path.write_text(ALL_TYPES)
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    wrappers = {part.partition("(")[0]: part for part in made[1].split(" wrap_")[1:]}
    for wrapper, operands in {"mm_out": ("self", "mat2", "out"), "maximum_out": ("self", "other", "out")}.items():
        for operand in operands:
            assert f"third_device::is_plain({operand}, false)" in wrappers[wrapper], wrapper
        assert "Fallback::call(" in wrappers[wrapper]
    assert "is_plain" not in wrappers["index_Tensor"]
    assert "return acme::index(self, indices);" in wrappers["index_Tensor"]


LISTS = """
namespace: acme
kernels:
  - cat.out
  - index.Tensor
  - {op: _foreach_add_.List, dtypes: [float32]}
"""


def test_tensors_of_a_list_are_on_one_device_or_are_taken_one_by_one(interpreter: Path, tmp_path: Path) -> None:
    """A kernel would take an address on another device for one of its own."""
    path = tmp_path / "operators.yaml"
    path.write_text(LISTS)
    (made,) = generated(interpreter, path)
    assert isinstance(made, list), made
    source = made[1]
    assert 'third_device::check_one_device("cat.out", third_device::OperandDevices(tensors, out));' in source
    assert 'third_device::check_one_device("index.Tensor", third_device::OperandDevices(self, indices));' in source
    wrapper = source.partition(" wrap__foreach_add__List(")[2].partition("\n}")[0]
    condition, _, otherwise = wrapper.partition(") {\n")[2].partition(") {\n")
    assert "are_plain(self" in condition and "third_device::OperandDevices(self, other).are_one()" in condition
    assert otherwise.strip().startswith("return at::native::foreach_tensor_add_list_kernel"), "other operands' way"
    assert "Fallback" not in wrapper, "it would move all of a list that has one tensor of the CPU"
    assert "#include <ATen/ops/_foreach_add_native.h>" in source and "check_one_device" not in wrapper


def test_a_kernel_for_copies_leaves_those_between_devices(interpreter: Path, tmp_path: Path) -> None:
    """They were refused, and with a kernel of `copy_` those to the host, which `Tensor.cpu` is."""
    text = "namespace: acme\nkernels: [{op: copy_, dtypes: [float32]}, {op: _copy_from, dtypes: [float32]}]\n"
    _, source = generate_text(interpreter, tmp_path, text)
    for op, other_way in (("copy_", "at::native::copy_"), ("_copy_from", "third_device::host::_copy_from")):
        wrapper = source.partition(f" wrap_{op}(")[2].partition("\n}")[0]
        condition, _, others = wrapper.partition(") {\n")[2].partition(") {\n")
        assert "third_device::OperandDevices(self, " in condition and ".are_one()" in condition
        assert f"return {other_way}(self, " in others and "check_one_device" not in wrapper
    assert "third_device::check_overlap(self, dst);" in wrapper, "bytes that overlap reach no kernel"


OTHER_LOOPS = """
namespace: acme
stubs:
  - {op: gather.out, stub: gather_stub, header: ATen/native/TensorAdvancedIndexing.h, kernel: gather_kernel}
  - {op: cumsum.out, stub: cumsum_stub, header: ATen/native/ReduceOps.h, kernel: cumsum_kernel}
"""


def test_an_inner_loop_over_tensors_sees_those_of_one_device(interpreter: Path, tmp_path: Path) -> None:
    """A TensorIterator looks at its operands' devices; such a loop has none."""
    _, source = generate_text(interpreter, tmp_path, OTHER_LOOPS)
    assert 'third_device::check_one_device("gather.out", third_device::OperandDevices(self, index, out));' in source
    assert 'third_device::check_one_device("cumsum.out", third_device::OperandDevices(self, out));' in source


def test_a_stub_is_called_by_atens_function_of_that_overload(interpreter: Path, tmp_path: Path) -> None:
    """ATen has a `where_self_out`, and no `where_out`, which is the operator's own name in C++."""
    text = (
        "namespace: acme\n"
        "stubs: [{op: where.self_out, stub: where_kernel, header: ATen/native/TensorCompare.h, kernel: where_kernel}]\n"
    )
    assert (
        "return at::native::where_self_out(condition, self, other, out);"
        in generate_text(interpreter, tmp_path, text)[1]
    )


BAD = {
    "stubs: [{op: cudnn_convolution.out, stub: s, header: h, kernel: k}]": "no stub is called on the CPU; write it",
    "kernels: [mm.uot]": "no operator 'mm.uot'; did you mean",
    "kernels: [add]": "no operator 'add'; did you mean add.Tensor or add.out",
    "kernels: [mm.out, mm.out]": "'mm.out' is there twice",
    "kernels: [mm.out]\nstubs: []\nkernels: [relu]": "line 4: 'kernels' is there twice",
    "kernels: [{op: mm.out, dtypes: [float32], dtypes: [float64]}]": "line 2: 'dtypes' is there twice",
    "kernels: [{op: mm.out, dtypes: [float31]}]": "unknown dtype 'float31'",
    "kernels: [{op: mm.out, dtype: [float32]}]": "unknown key 'dtype'",
    "kernels: [mm.out]\nstubs: [{op: mm.out, stub: s, header: h, kernel: k}]": "implemented twice",
    "stubs: [{op: abs.out, stub: abs_stub, header: h}]": "needs 'kernel'",
    "stubs: [{op: abs, stub: s, header: h, kernel: k}]": "name the .out variant",
    "custom: [{func: 'swish(Tensor self -> Tensor'}]": "not a schema",
    "custom: [{func: swish(Tensor self) -> Tensor}]": "needs 'like'",
    "custom: [{func: 'acme::f(Tensor a) -> Tensor', like: a}]": "its name stands without a namespace, which is acme",
    "custom: [{func: f(Tensor a) -> Tensor, like: a}, {func: 'f(Tensor a, int b) -> Tensor', like: a}]": "there twice",
    "custom: [{func: 'f(Tensor a) -> (Tensor, Tensor)', like: [a]}]": "'like', one of the tensor arguments for each",
    "custom: [{func: 'f(Tensor a) -> (Tensor, int)', like: [a, a]}]": "not all of its results are tensors: f(Tensor a)",
    "custom: [{func: f(Tensor a) -> int}]": "needs 'meta': its results are no tensors: f(Tensor a) -> int",
    "custom: [{func: f_(Tensor(a!) self) -> Tensor(a!), backward: g}]": "name that one: f_(Tensor(a!) self)",
    "custom: [{func: 'f(Tensor[] a) -> Tensor', meta: m, backward: g}]": "not for lists of them: f(Tensor[] a)",
    "custom: [{func: 'f(Tensor(a!)[] a) -> ()'}]": "a list of tensors cannot be written to: f(Tensor(a!)[] a) -> ()",
    "custom: [{func: f(Tensor a) -> Tensor, like: a, python: a.b}]": "python: a name is needed, not 'a.b'",
    "kernels: [{op: relu_, backward: g}]": "name that one: relu_(Tensor(a!) self) -> Tensor(a!)",
    "kernels: [{op: item, backward: g}]": "return tensors and nothing else: item(Tensor self) -> Scalar",
    "kernels: [{op: relu, key: CUDA}]": "unknown key 'CUDA'; there are PrivateUse1, AutogradPrivateUse1",
    "kernels: [{op: relu, elsewhere: true, dtypes: [float32]}]": "always called; leave out dtypes and contiguous",
    "kernels: [{op: relu, key: SparsePrivateUse1}]": "has a name and nothing else: relu(Tensor self) -> Tensor",
    "custom: [{func: f(Tensor a) -> Tensor, like: {a: 1}}]": "needs 'like', one of the tensor arguments",
    "kernels: [{op: mm.out, dtypes: [[float32]]}]": "unknown dtype ['float32']",
    "kernels: [{op: mm.out, contiguous: 'no'}]": "mm.out: contiguous: true or false is needed, not 'no'",
    "kernels: [{op: mm.out, 1: 2, dtype: 3}]": "unknown key 1",
    "kernels: [{op: relu, kernel: 'f()'}]": "kernel: a name is needed",
    "kernels: [{op: relu, kernel: a.b}]": "relu: kernel: a name is needed, not 'a.b'",
    "kernels: [{op: relu, kernel: 'a::b'}]": "relu: kernel: a name is needed, not 'a::b'",
    "stubs: [{op: abs.out, stub: 'at::abs_stub', header: h, kernel: k}]": "stub: a name is needed, not 'at::abs_stub'",
    "autocast: {1: [mm], x: [mm]}": "unknown policy 1",
    (
        "stubs: [{op: add.out, stub: add_stub, header: h, kernel: k},"
        " {op: sub.out, stub: add_stub, header: h, kernel: other}]"
    ): "sub.out: add_stub has the kernel 'k' already, not 'other'",
    "stubs: [{op: aminmax.out, stub: s, header: h, kernel: k}]": "one output; name the .out variant, or write it under",
    "reroute: [{op: silu, to: gelu}]": "gelu(Tensor self, *, str approximate='none') -> Tensor has not the arguments",
    "reroute: [{op: silu, to: 'acme::nothing'}]": "no custom operator 'nothing'; for silu(Tensor self) -> Tensor",
    "reroute: [{op: silu, to: 'other::silu'}]": "needs 'to', an operator of PyTorch's or acme::NAME",
    "reroute: [{op: silu, to: true}]": "silu: to: a name is needed, not True",
    "reroute: [{op: silu, to: silu}]": "that is itself: silu(Tensor self) -> Tensor",
    "kernels: [silu]\nreroute: [{op: silu, to: mish}]": "implemented twice",
    "fallback: {deny: [nothing]}": "no operator 'nothing'",
    "kernels: [mm.out]\nfallback: {deny: [mm.out]}": "has a kernel",
    "autocast: {fp8: [mm]}": "unknown policy 'fp8'",
    "autocast: {fp32: [nothing]}": "no operator 'nothing'",
    "autocast: {lower_precision_fp: [mm], fp32: [mm]}": "fp32: 'mm' is in lower_precision_fp already",
    "autocast: {fp32: [mm, mm]}": "fp32: 'mm' is in fp32 already",
    (
        "kernels: [{op: mm, key: AutocastPrivateUse1, kernel: k}]\nautocast: {fp32: [mm]}"
    ): "autocast: 'mm' has a kernel at AutocastPrivateUse1; leave one out",
    (
        "kernels: [{op: hardswish, backward: b}, {op: hardswish, key: AutogradPrivateUse1, kernel: k}]"
    ): "'hardswish' is registered twice at AutogradPrivateUse1; leave one out",
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
    (tmp_path / "latin.yaml").write_bytes(b"namespace: acme  # caf\xe9\n")
    others = {
        "nameless.yaml": "C++ identifier",
        "broken.yaml": "not YAML",
        "latin.yaml": "not YAML",
        "none.yaml": "No such file or directory; it has 'namespace: NAME' at least",
    }
    results = generated(interpreter, *paths, *(tmp_path / name for name in others))
    for result, path, expected in zip(results, [*paths, *others], [*BAD.values(), *others.values()], strict=True):
        assert isinstance(result, str) and expected in result and str(path) in result
