"""One type from end to end: quantized by three kinds of methods, compared with plain hooks, exported, loaded again."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

from conformance.every_model.small import small_config, small_model
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.checkpoints.plain import save_plain
from sarqc.checkpoints.round_trip import read_again
from sarqc.engine.keys import describe, layer_keys
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.models.admission import admit
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.linears import weight_of
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.methods import method
from tests.calibration.test_pipeline import a_plan
from tests.oracles import algorithm_2, gram_by_token, regularised_gram

METHODS = (method("gptq"), method("awq"), method("signround", steps=2))
_PRODUCTS = (
    nn.functional.linear, torch.addmm, torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.mm,
)  # fmt: skip
_TIE = 1e-3  # of a step: float32 and float64 may round apart this near to a tie


@dataclass(frozen=True)
class Outcome:
    """What became of a type.

    Attributes:
        linears: Number of quantized linears.
        share: Their share of the parameters outside embedding and head.
        rows: Number of rows whose codes were compared with the reference.
        other_rows: Number of those that differ without a rounding tie.
        refusal: Words with which learned rounding was refused; empty if it was not.
    """

    linears: int
    share: float
    rows: int
    other_rows: int
    refusal: str = ""


def check(model_type: str, folder: Path, tokenizer: Path) -> Outcome:
    """Take a type from end to end; an assertion names what failed.

    Args:
        model_type: The type.
        folder: New folder for its checkpoints.
        tokenizer: Folder of a tokenizer with 4,096 tokens.

    Raises:
        Refused: If the model is not admitted.
    """
    model = small_model(model_type)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(std=0.1, generator=generator)
    model.save_pretrained(folder / "float")
    small_config(model_type).save_pretrained(folder / "float")  # some models keep their decoder's part alone
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / "float" / name)
    outcome = None
    for chosen in METHODS:
        loaded = load(read_checkpoint(folder / "float"), torch.device("cpu"))
        job = replace(a_plan(loaded, inputs_from="float"), method=chosen)
        try:
            if loaded.checkpoint.decoder is not None:
                admit(loaded, learns=chosen.unit == "block")
            layers = [step for step in calibrate(loaded, job, None, layer_keys(describe(loaded), job))
                      if isinstance(step, SolvedLayer)]  # fmt: skip
        except Refused as refused:
            if chosen.unit != "block" or outcome is None:
                raise
            return replace(outcome, refusal=refused.what)
        assert [layer.info for layer in layers] == loaded.checkpoint.layers, "layers are missing"
        if chosen is METHODS[0]:
            outcome = _compared(loaded, layers, job, folder / "float")
        _check_measured(loaded)
        _check_export(loaded, folder / chosen.solver)
    assert outcome is not None
    return outcome


def _check_measured(loaded: LoadedModel) -> None:
    """The quantized model's perplexity by blocks is that of its own logits."""
    ids = np.random.default_rng(5).integers(0, 4096, 96)
    found = measure_perplexity(loaded, ids, "noise", 32).value
    windows = torch.from_numpy(ids).reshape(3, 32)
    with torch.no_grad():
        logits = torch.cat([loaded.model(window[None], use_cache=False).logits for window in windows])
    losses = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).double(), windows[:, 1:].flatten())
    assert np.isclose(np.log(found), float(losses), rtol=1e-4), f"perplexity {found}, of its own logits {losses.exp()}"


def _check_export(loaded: LoadedModel, folder: Path) -> None:
    """What transformers loads from the files is the model that was measured."""
    tokens = torch.randint(4096, (1, 32), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = loaded.model(tokens, use_cache=False).logits
    save_plain(loaded, folder)
    assert not read_again(loaded, folder, "plain"), "the files hold other weights"
    again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        difference = float((again(tokens, use_cache=False).logits - expected).abs().max())
    assert difference <= 1e-5 * float(expected.abs().max()), f"loaded again, logits differ by {difference:.2g}"


def _compared(loaded: LoadedModel, layers: list[SolvedLayer], job: CalibrationJob, folder: Path) -> Outcome:
    """Compares codes with the printed algorithm on Grams from plain hooks in float64."""
    original = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, experts_implementation="eager").eval()
    blocks = original.get_submodule(loaded.family.blocks)
    with inputs_by_weight(original) as inputs, torch.no_grad(), _default_dtype(torch.float64):
        original(torch.from_numpy(job.sequences.calibration.copy()), use_cache=False)
    rows = other = 0
    for layer in layers:
        path = layer.info.path_in_block(loaded.family.blocks)
        weight = weight_of(blocks[layer.info.block], path).detach()
        given = inputs.of(weight, layer.info.expert)
        if given is None:
            assert layer.info.expert is not None, f"{layer.info.name} reads nothing"
            continue  # no token was routed to it
        grid = job.grids[layer.info.name]
        gram = regularised_gram(gram_by_token(given.numpy()), None, 0.01)
        oracle = algorithm_2(weight.numpy(), gram, grid.bits, grid.group_size, grid.kind)
        codes = layer.quantized.codes.numpy()
        differs = (codes != oracle.codes).any(axis=1)
        rows += len(codes)
        other += int((differs & (oracle.margin > _TIE)).sum())
    outside = sum(parameter.numel() for parameter in blocks.parameters())
    share = sum(np.prod(layer.info.shape) for layer in layers) / outside
    return Outcome(len(layers), float(share), rows, other)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A context in which new tensors have a dtype: constants of a model in float64 need not fit into float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class _Inputs(TorchFunctionMode):
    """Notes what each product with a parameter was given, whatever module it is in."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._own = {parameter.untyped_storage().data_ptr(): parameter for parameter in model.parameters()}
        self._seen: dict[tuple[int, int], list[Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS:
            tensors = [value for value in args if isinstance(value, Tensor) and value.ndim > 1]
            weights = [value for value in tensors if value.untyped_storage().data_ptr() in self._own]
            given = [value for value in tensors if value.untyped_storage().data_ptr() not in self._own]
            if len(weights) == len(given) == 1 and weights[0].ndim == 3:  # experts side by side
                for weight, states in zip(weights[0], given[0], strict=True):
                    self._seen.setdefault(self._key(weight), []).append(states.detach())
            elif len(weights) == len(given) == 1:
                self._seen.setdefault(self._key(weights[0]), []).append(given[0].detach())
        return func(*args, **(kwargs or {}))

    def of(self, weight: Tensor, expert: int | None) -> Tensor | None:
        """Inputs (tokens, I) of a weight (O, I), a parameter or an expert's part of one; None without any."""
        given = self._seen.get(self._key(weight))
        width = weight.shape[1]
        return None if given is None else torch.cat([value.reshape(-1, width) for value in given])

    def _key(self, weight: Tensor) -> tuple[int, int]:
        """Storage, and the number of the expert in a stack."""
        pointer = weight.untyped_storage().data_ptr()
        whole = self._own[pointer]
        return pointer, weight.storage_offset() // whole[0].numel() if whole.ndim == 3 else 0


@contextmanager
def inputs_by_weight(model: nn.Module) -> Iterator[_Inputs]:
    """A context in which inputs of all products with parameters are noted."""
    with (mode := _Inputs(model)):
        yield mode
