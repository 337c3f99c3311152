"""Statistics of a layer's inputs: sums over tokens, additive, never changed by anything."""

import math

import numpy as np
import pytest
import torch

from sarqc import LayerStatistics
from sarqc.errors import NumericalError, Refused
from sarqc.quantization.layer_statistics import RunningSums, split_in_two
from tests import oracles


def test_sums_over_tokens():
    x = oracles.correlated_inputs(1, 50, 12)
    statistics = LayerStatistics.from_inputs(torch.from_numpy(x))
    assert statistics.n_tokens == 50
    assert np.allclose(statistics.gram.numpy(), oracles.gram_by_token(x), rtol=1e-12)
    assert np.allclose(statistics.abs_sum.numpy(), np.abs(x).sum(axis=0), rtol=1e-12)
    assert np.allclose(statistics.abs_mean.numpy(), np.abs(x).mean(axis=0), rtol=1e-12)


def test_dtypes():
    x = torch.from_numpy(oracles.correlated_inputs(2, 20, 8))
    assert LayerStatistics.from_inputs(x).gram.dtype == torch.float64
    assert LayerStatistics.from_inputs(x).abs_sum.dtype == torch.float64
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        statistics = LayerStatistics.from_inputs(x.to(dtype))
        assert statistics.gram.dtype == torch.float32
        assert statistics.abs_sum.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_inputs_are_summed_in_single_precision(dtype):
    """Squares of 300 overflow float16, and 4096 additions lose bfloat16's eight bits."""
    x = torch.from_numpy(300 * oracles.correlated_inputs(3, 4096, 6)).clamp(-60000, 60000).to(dtype)
    statistics = LayerStatistics.from_inputs(x)
    exact = x.double().numpy()
    scale = np.sqrt(np.outer(np.diag(exact.T @ exact), np.diag(exact.T @ exact)))
    assert (np.abs(statistics.gram.double().numpy() - exact.T @ exact) <= 1e-5 * scale).all()
    assert np.allclose(statistics.abs_sum.double().numpy(), np.abs(exact).sum(axis=0), rtol=1e-5)


def test_different_widths_do_not_add():
    narrow, wide = (LayerStatistics.from_inputs(torch.ones(3, width)) for width in (4, 8))
    with pytest.raises(Refused):
        narrow + wide


def test_cross_term():
    x, x_float = oracles.correlated_inputs(8, 40, 9), oracles.correlated_inputs(9, 40, 9)
    a, b = torch.from_numpy(x), torch.from_numpy(x_float)
    whole = LayerStatistics.from_inputs(a.reshape(4, 10, 9), b.reshape(4, 10, 9))
    assert np.allclose(whole.cross.numpy(), oracles.cross_by_token(x_float, x), rtol=1e-12)
    assert torch.equal(whole.gram, LayerStatistics.from_inputs(a).gram)
    total = LayerStatistics.from_inputs(a[:13], b[:13]) + LayerStatistics.from_inputs(a[13:], b[13:])
    assert torch.allclose(total.cross, whole.cross, rtol=1e-12, atol=1e-12)
    assert total.to("cpu", torch.float32).cross.dtype == torch.float32
    assert torch.equal(total.to("cpu").cross, total.cross)
    assert LayerStatistics.from_inputs(a).cross is None
    assert LayerStatistics.from_inputs(a).to("cpu").cross is None
    half = LayerStatistics.from_inputs(a.half(), b.half())
    assert half.cross.dtype == torch.float32
    exact = oracles.cross_by_token(b.half().double().numpy(), a.half().double().numpy())
    assert np.allclose(half.cross.numpy(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 16), (torch.float16, 21)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_two_numbers_of_16_bits_make_one_of_32(dtype, bits, size):
    values = size * torch.from_numpy(oracles.correlated_inputs(5, 64, 32)).float()
    unit, (coarse, fine) = split_in_two(values, dtype)
    assert coarse.dtype == fine.dtype == dtype
    assert float(unit.log2()) == int(unit.log2())
    made = (coarse.double() + fine.double()) * unit.double()
    bound = values.abs().double() * 2.0**-bits + values.abs().max() * 2.0**-24
    assert ((made - values).abs() <= bound).all()
    assert torch.isfinite(split_in_two(torch.zeros(3, 2), dtype)[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its products are a GPU's")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gpu_comes_to_the_cross_term_of_the_cpu(dtype):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(5000, 96, generator=random).to(dtype)
    near = (x.float() + 0.03 * torch.randn(5000, 96, generator=random)).to(dtype)
    found, sums = LayerStatistics.from_inputs(x.cuda(), near.cuda()), RunningSums()
    for part, other in ((x[:0], near[:0]), (x, near)):
        sums.add(part.cuda(), other.cuda())
    exact = oracles.cross_by_token(near.double().numpy(), x.double().numpy())
    scale = np.abs(exact).max()
    for cross in (found.cross, sums.total().cross):
        assert np.abs(cross.cpu().numpy() - exact).max() < 1e-5 * scale


def test_cross_terms_that_do_not_fit_are_refused():
    x = torch.ones(3, 4)
    plain, crossed = LayerStatistics.from_inputs(x), LayerStatistics.from_inputs(x, 2 * x)
    for one, other in ((plain, crossed), (crossed, plain)):
        with pytest.raises(Refused, match="cross"):
            one + other
    with pytest.raises(Refused, match="float_inputs"):
        LayerStatistics.from_inputs(x, torch.ones(2, 4))
    with pytest.raises(Refused, match="cross"):
        LayerStatistics(crossed.gram, crossed.abs_sum, 3, torch.ones(4))
    broken = crossed.cross.clone()
    broken[1, 2] = float("nan")
    with pytest.raises(NumericalError, match="cross is not finite at channel 2"):
        LayerStatistics(crossed.gram, crossed.abs_sum, 3, broken)


def test_sums_of_batches_are_those_of_the_whole():
    x, y = (torch.from_numpy(oracles.correlated_inputs(seed, 60, 10)) for seed in (11, 12))
    whole, sums = LayerStatistics.from_inputs(x, y), RunningSums()
    added = LayerStatistics.from_inputs(x[:0], y[:0])  # the neutral element
    assert torch.equal(added.abs_mean, torch.zeros(10, dtype=torch.float64))
    for one, other in zip(x.split([0, 1, 17, 42]), y.split([0, 1, 17, 42]), strict=True):
        sums.add(one, other)
        added = added + LayerStatistics.from_inputs(one, other)
    total = sums.total()
    assert total.n_tokens == added.n_tokens == 60
    for name in ("gram", "abs_sum", "cross", "max_norm"):
        assert torch.equal(getattr(total, name), getattr(added, name)), name
        torch.testing.assert_close(getattr(total, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    largest = max(math.sqrt(sum(value**2 for value in token)) for token in x.tolist())
    assert float(total.max_norm) == pytest.approx(largest, rel=1e-12)
    without = LayerStatistics(whole.gram, whole.abs_sum, whole.n_tokens)
    assert (LayerStatistics.from_inputs(x) + without).max_norm is None  # of some tokens nobody knows it
    assert float(total.to("cpu", torch.float32).max_norm) == pytest.approx(largest, rel=1e-6)


def test_running_sums_have_float_inputs_always_or_never():
    x = torch.ones(3, 4)
    for first, second in ((None, x), (x, None)):
        sums = RunningSums()
        sums.add(x, first)
        with pytest.raises(Refused, match="every batch or for none"):
            sums.add(x, second)


def test_running_sums_notice_what_is_not_finite_at_the_end():
    sums = RunningSums()
    sums.add(torch.ones(3, 4))
    sums.add(torch.tensor([[1.0, float("nan"), 1.0, 1.0]]))
    with pytest.raises(NumericalError, match="gram is not finite at channel"):
        sums.total()


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["gram", "abs_sum"])
def test_not_finite_is_an_error(name, poison):
    sums = {"gram": torch.eye(48), "abs_sum": torch.ones(48)}
    sums[name][..., 17] = poison
    with pytest.raises(NumericalError, match=f"{name} is not finite at channel 17") as error:
        LayerStatistics(**sums, n_tokens=96)
    assert error.value.remedy


@pytest.mark.thorough
@pytest.mark.parametrize("width", [2047, 2048, 2051])
def test_half_of_a_large_gram_is_all_of_it(width):
    inputs = torch.randn(70, width, generator=torch.Generator().manual_seed(1))
    gram = LayerStatistics.from_inputs(inputs).gram
    assert torch.equal(gram, gram.mT)
    expected = inputs.double().mT @ inputs.double()
    torch.testing.assert_close(gram.double(), expected, rtol=0, atol=1e-5 * float(expected.diagonal().max()))
