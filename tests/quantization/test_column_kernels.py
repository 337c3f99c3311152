"""The kernels for a GPU against the loops, bit for bit: in Triton's interpreter, or on a GPU where there is one."""

import os
import subprocess
import sys

import pytest
import torch

from sarqc import Grid
from sarqc.quantization import column_kernels
from sarqc.quantization.column_solver import factorise, solve_columns
from sarqc.quantization.column_updates import descend_in_loop, first_difference, kernel_obstacle, take_turns_in_loop
from sarqc.quantization.columns import Columns, random_columns, random_descent
from sarqc.quantization.refinement import refined_codes
from sarqc.quantization.storage import KINDS
from tests.oracles_kernels import same_bits, with_kernels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [(1, 1, 1), (2, 7, 3), (1, 12, 130)]  # candidates, columns, rows
DTYPES = [torch.float32, torch.float64]


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "shifted"])
def test_turns(kind, shape, dtype, shifted):
    for bits in (2, 8):
        random, grid = torch.Generator().manual_seed(bits), Grid(bits, None, kind)
        columns = random_columns(shape, grid, random, dtype, DEVICE, shifted=shifted)
        same_bits(columns, grid, column_kernels.take_turns, take_turns_in_loop, ("codes", "delta", "values"))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_descent(kind, shape, dtype):
    for bits in (2, 8):
        random, grid = torch.Generator().manual_seed(bits), Grid(bits, None, kind)
        block = random_descent(shape, grid, random, dtype, DEVICE)
        same_bits(block, grid, column_kernels.descend, descend_in_loop, ("codes", "steps"))


def test_ties_and_values_far_outside_of_the_grid():
    grid, scale = Grid(3, None, "asymmetric"), 0.25
    original = torch.tensor([-1e30, -3e4, -0.125, 0.0, 0.125, 0.375, 0.625, 1.5, 3e4, 1e30], device=DEVICE)
    original = original.reshape(1, 1, -1)
    columns = Columns(
        original, torch.zeros_like(original), original.new_ones(1, 1, 1), torch.full_like(original, scale),
        torch.full_like(original, 3.0), torch.zeros_like(original), torch.zeros_like(original),
    )  # fmt: skip
    same_bits(columns, grid, column_kernels.take_turns, take_turns_in_loop, ("codes", "delta"))
    column_kernels.take_turns(columns, grid)
    assert columns.codes.flatten().tolist() == [0, 0, 3, 3, 3, 5, 5, 7, 7, 7]  # ties to even quotients


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["asymmetric", "affine"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_a_whole_solver(kind, static, monkeypatch):
    torch.manual_seed(1)
    weight, inputs = torch.randn(2, 5, 24, device=DEVICE), torch.randn(75, 24, device=DEVICE)
    grams = torch.stack([inputs.mT @ inputs + lam * torch.eye(24, device=DEVICE) for lam in (1.0, 30.0)])
    factors = torch.stack([factorise(gram).unit_upper for gram in grams])
    shifts = 0.1 * factors.triu(1)
    grid = Grid(2, 12, kind)
    orders = torch.stack([torch.randperm(24) for _ in range(2)]).to(DEVICE) if static else None

    def solved() -> list[torch.Tensor]:
        codes, scales, zero_points = solve_columns(
            weight, factors, grid, torch.float16, block_size=8, static_groups=static, shifts=shifts, orders=orders
        )
        refined = refined_codes(weight, codes, scales, zero_points, grams, grid, passes=2, orders=orders)
        return [codes, scales, zero_points, refined]

    with monkeypatch.context() as patch:
        calls = with_kernels(patch, None)
        loops = solved()
        assert calls == []
    calls = with_kernels(monkeypatch, column_kernels)
    for one, other in zip(solved(), loops, strict=True):
        assert torch.equal(one, other)
    assert {"take_turns", "descend"} == set(calls)


@pytest.mark.thorough
def test_what_a_host_is_told_about_its_kernels(monkeypatch):
    assert first_difference(column_kernels, DEVICE) == ""
    assert kernel_obstacle(torch.device("cpu")) == ""

    def wrong(columns: Columns, grid: Grid) -> None:
        take_turns_in_loop(columns, grid)
        columns.delta[0, 0, 0] *= 1 + 2**-20

    with monkeypatch.context() as patch:
        patch.setattr(column_kernels, "take_turns", wrong)
        assert first_difference(column_kernels, DEVICE).startswith("columns, asymmetric")


_COMPILE = """
from itertools import product
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sarqc.quantization import column_kernels

def compiled(kernel, constants):
    def kind(name):
        if name in constants:
            return "constexpr"
        if name.startswith("n_") or name.endswith(("_c", "_b")):
            return "i32"
        return "fp32" if name in ("lowest", "highest") else "*fp64" if constants["DOUBLE"] else "*fp32"
    names = kernel.arg_names
    places = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, {name: kind(name) for name in names}, places)
    options = {"num_warps": 1, "enable_fp_fusion": False}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options).asm["ptx"]

for double, special in product((False, True), repeat=2):
    sizes = {"COLUMNS": 16, "ROWS": 32, "DOUBLE": double}
    turns = compiled(column_kernels._turns, sizes | {"AFFINE": special, "SHIFTED": special})
    precise = "div.rn.f64" if double else "div.rn.f32"
    assert precise in turns and "fma.rn" in turns and "div.full" not in turns
assert "fma.rn" in compiled(column_kernels._descent, {"COLUMNS": 16, "ROWS": 32, "DOUBLE": False})
print("compiled")
"""


@pytest.mark.thorough
def test_the_kernels_compile_for_a_gpu_that_is_not_here(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path)}
    answer = subprocess.run([sys.executable, "-c", _COMPILE], capture_output=True, text=True, env=environment)
    assert answer.stdout.strip() == "compiled", answer.stderr[-2000:]
