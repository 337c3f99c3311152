"""Why GPTQ's default is worse than rounding on SmolLM2 at 3 bits: the values of each sequence's first token.

    make pretrained && SARQC_DATA_DIR=… python -m benchmarks.first_tokens

The numbers are kept as docs/first_tokens.json, from which docs/make_results.py writes a section of docs/results.md.
Attention of trained models rests on the first token where it has nothing better to look at, so that every later token
reads its value. In the Gram it counts once in 512 tokens. Here it is counted several times.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measured import host
from sarqc.calibration.corpora import Sequences, Text, draw_sequences, separate_texts, text_of
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method, method
from sarqc.quantization.solve import quantize_layer
from sarqc.settings import Settings

MODEL = "smollm2-135m-instruct"
NUMBERS = Path("docs/first_tokens.json")
GRID = Grid(3, 64, "asymmetric")
SAMPLES, LENGTH, TEST_TOKENS, DRAWS = 16, 512, 10_240, (0, 1, 2)
VALUES = "v_proj"
ROUNDING = method("rtn")
GPTQ = ColumnSolver(lam=0.01)
SALIENCY = ColumnSolver(lam=0.5, gamma=0.1, saliency="saliency")


@dataclass(frozen=True)
class Case:
    """A way to quantize all linears; values may have a method of their own, and first tokens a weight there."""

    name: str
    of_all: Method
    of_values: Method
    weight: int = 1  # times that a sequence's first token counts in the Gram of the values


CASES = (
    Case("Rounding to nearest", ROUNDING, ROUNDING),
    Case("GPTQ 1 %", GPTQ, GPTQ),
    Case("GPTQ 1 %, values rounded to nearest", GPTQ, ROUNDING),
    Case("Rounding to nearest, values by GPTQ 1 %", ROUNDING, GPTQ),
    Case("GPTQ 1 %, first tokens ten times in the values", GPTQ, GPTQ, 10),
    Case("GPTQ 1 %, first tokens a hundred times in the values", GPTQ, GPTQ, 100),
    Case("Saliency, λ = 0.5, γ = 0.1", SALIENCY, SALIENCY),
    Case("Saliency, λ = 0.5, γ = 0.1, first tokens a hundred times in the values", SALIENCY, SALIENCY, 100),
)


@dataclass(frozen=True)
class Inputs:
    """Statistics of what a linear reads, of all tokens and of the first of each sequence alone."""

    every: LayerStatistics
    first: LayerStatistics

    def weighted(self, weight: int) -> LayerStatistics:
        """With first tokens counted ``weight`` times; mean |x| stays that of all tokens."""
        return replace(self.every, gram=self.every.gram + (weight - 1) * self.first.gram)


def inputs_of(loaded: LoadedModel, sequences: Sequences) -> dict[str, Inputs]:
    """Of every quantized linear, on the float model."""
    found: dict[str, Inputs] = {}

    def hook(name: str) -> Callable[[torch.nn.Module, tuple[Tensor, ...]], None]:
        def add(_: torch.nn.Module, given: tuple[Tensor, ...]) -> None:
            tokens = given[0][0]  # (T, I)
            new = Inputs(LayerStatistics.from_inputs(tokens), LayerStatistics.from_inputs(tokens[:1]))
            old = found.get(name)
            found[name] = new if old is None else Inputs(old.every + new.every, old.first + new.first)

        return add

    names = [layer.name for layer in loaded.checkpoint.layers]
    hooks = [loaded.model.get_submodule(name).register_forward_pre_hook(hook(name)) for name in names]
    with torch.no_grad():
        for sequence in sequences.calibration:
            loaded.model.base_model(torch.from_numpy(sequence.copy()).long()[None], use_cache=False)
    for handle in hooks:
        handle.remove()
    return found


def error(change: Tensor, weight: Tensor, statistics: LayerStatistics) -> float:
    """Relative error of a linear's outputs."""
    return float(torch.sum((change @ statistics.gram) * change) / torch.sum((weight @ statistics.gram) * weight))


def measured(loaded: LoadedModel, sequences: Sequences, texts: dict[str, Text]) -> Iterator[dict[str, Any]]:
    """Each case on one draw."""
    inputs = inputs_of(loaded, sequences)
    original = {name: loaded.weight(name).detach().clone() for name in inputs}
    for case in CASES:
        errors: dict[str, list[float]] = {"first": [], "every": []}
        for name, weight in original.items():
            is_value = name.endswith(VALUES)
            statistics = inputs[name].weighted(case.weight if is_value else 1)
            solved = quantize_layer(weight, statistics, GRID, case.of_values if is_value else case.of_all)
            loaded.weight(name).data.copy_(solved.dequantized)
            if is_value:
                change = solved.dequantized - weight
                errors["first"].append(error(change, weight, inputs[name].first))
                errors["every"].append(error(change, weight, inputs[name].every))
        perplexities = {
            name: measure_perplexity(loaded, text.ids, text.corpus, LENGTH).value for name, text in texts.items()
        }
        row = {"case": case.name, "perplexity": perplexities}
        row |= {f"{name}_error": float(np.median(values)) for name, values in errors.items()}
        print(json.dumps(row, ensure_ascii=False), flush=True)
        yield row
    for name, weight in original.items():
        loaded.weight(name).data.copy_(weight)


def main() -> None:
    settings = Settings()
    checkpoint = checkpoint_of(MODEL, None, settings)
    calibration, unseen = separate_texts(text_of("c4", checkpoint, settings), text_of("c4", checkpoint, settings))
    wikitext = text_of("wikitext2-test", checkpoint, settings)
    texts = {
        wikitext.corpus: replace(wikitext, ids=wikitext.ids[:TEST_TOKENS]),
        unseen.corpus: replace(unseen, ids=unseen.ids[:TEST_TOKENS]),
    }
    loaded = load(checkpoint, torch.device("cpu"))
    document: dict[str, Any] = {
        "host": host(), "model": MODEL, "bits": GRID.bits, "group_size": GRID.group_size, "kind": GRID.kind,
        "tokens": SAMPLES * LENGTH, "length": LENGTH, "test_tokens": TEST_TOKENS, "calibration": calibration.corpus,
        "draws": [],
        "float": {
            name: measure_perplexity(loaded, text.ids, text.corpus, LENGTH).value for name, text in texts.items()
        },
    }  # fmt: skip
    for seed in DRAWS:
        sequences = draw_sequences(
            calibration, samples=SAMPLES, length=LENGTH, held_out_samples=0, sampling="random", seed=seed
        )  # fmt: skip
        document["draws"].append(list(measured(loaded, sequences, texts)))
        NUMBERS.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
