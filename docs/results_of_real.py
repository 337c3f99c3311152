"""The part of docs/results.md about pretrained models, from the shipped study of one and from docs/real.json, which
``make real`` keeps as build/real/real.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from make_reference import table
from results_of_costs import host_words

from benchmarks.quality.table import signed
from sarqc.figures.numbers import perplexity_text
from sarqc.study.document import Line, Study
from sarqc.study.facts import LineFacts, Quality, line_facts

NUMBERS = Path(__file__).parent / "real.json"
FIRST_TOKENS = Path(__file__).parent / "first_tokens.json"  # of python -m benchmarks.first_tokens
STUDIES = Path(__file__).resolve().parent.parent / "assets" / "studies"
STUDY, METHODS_STUDY = STUDIES / "smollm2", STUDIES / "smollm2-methods"
PENALTIES = (("rqc-gbs", "identity"), ("sarqc-gbs", "saliency"))
WORDS = {-1: "better", 0: "not clear of 0", 1: "worse"}


def _perplexity(value: float) -> str:
    """Six digits: further ones of a mean depend on the processor."""
    return perplexity_text(float(f"{value:.6g}"))


def parts() -> Iterator[str]:
    """Paragraphs and tables; nothing where nothing was measured."""
    if STUDY.is_dir():
        study = Study.open(STUDY)
        yield "## A pretrained model"
        yield _protocol(study)
        for bits in sorted({line.bits for line in study.lines}):
            yield f"### {bits} bits"
            yield _curves(study, bits)
            if others := _others(study, bits):
                yield others
        yield from _accuracies(study, "Zero-shot accuracy")
        if FIRST_TOKENS.exists():
            yield "### Why GPTQ's default is worse than rounding at 3 bits"
            yield from _first_tokens(study, json.loads(FIRST_TOKENS.read_text(encoding="utf-8")))
    if METHODS_STUDY.is_dir():
        yield from _methods(Study.open(METHODS_STUDY))
    if NUMBERS.exists():
        yield "## Pretrained models from a file to a checkpoint"
        yield from _runs(json.loads(NUMBERS.read_text(encoding="utf-8")))


def _methods(study: Study) -> Iterator[str]:
    calibration, test = study.protocol["calibration"], study.protocol["test"]
    yield "### Every method at 3 bits, as a run would do it"
    yield (
        f"Groups of {study.lines[0].group_size}, quantized prefix, {calibration['samples']} × {calibration['length']} "
        f"tokens of {calibration['corpus']}; perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']}, "
        "the geometric mean over draws, with its range. The paired difference is to the method's own baseline, with "
        "the 95 % interval, not corrected for the number of rows. λ = 0.5 was chosen after the sweep above, which "
        "measures on the same text and shares its draws, so that these rows favour the penalty a little; λ = 0.3 of "
        "the scale searches was chosen without one. OmniQuant and SignRound were not run, for time."
    )
    rows = []
    for line in (line for line in study.lines if line.bits == 3):
        values = study.read(line, "perplexity")[:, 0, 0]
        quality = line_facts(study, method=line.name, bits=line.bits, layer=None).perplexity
        assert quality is not None
        lam = f", λ = {line.lams[0]:g}" if line.lams[0] else ""
        spread = f" ({_perplexity(values.min())} to {_perplexity(values.max())})" if len(values) > 1 else ""
        rows.append(
            [
                f"{line.label}{lam}",
                str(len(values)),
                _perplexity(float(quality.mean[0, 0])) + spread,
                _to_baseline(quality, (0, 0)) or "–",
            ]
        )
    yield table(["method", "draws", "perplexity", "paired difference"], rows)
    yield from _accuracies(study, "Zero-shot accuracy, six tasks, quantized prefix")


def _protocol(study: Study) -> str:
    calibration, test, line = study.protocol["calibration"], study.protocol["test"], study.lines[0]
    only = ", the first of the text" if "only_the_first_tokens" in test else ""
    weights = study.protocol["weights"]
    return (
        f"{study.model.name}, {line.grid}, groups of {line.group_size}, the column solver on the float prefix; "
        f"{calibration['samples']} × {calibration['length']} tokens of {calibration['corpus']}; perplexity on "
        f"{test['predicted_tokens']:,} tokens of {test['corpus']}{only}, in windows of {test['window']} (float: "
        f"{study.model.perplexity:.2f}). {weights[:1].upper()}{weights[1:]}. Beside "
        "a perplexity of several draws stands its paired difference to GPTQ 1 %, with the 95 % interval (Student's t "
        "over draws, not corrected for the number of λ). λ = 0.01 with identity is GPTQ 1 %."
    )


def _facts(study: Study, name: str, bits: int) -> LineFacts | None:
    there = any(line.name == name and line.bits == bits for line in study.lines)
    return line_facts(study, method=name, bits=bits, layer=None) if there else None


def _point(facts: LineFacts, g: int, m: int) -> str:
    quality = facts.perplexity
    assert quality is not None
    beside = _to_baseline(quality, (g, m))
    return _perplexity(float(quality.mean[g, m])) + (f", {beside}" if beside else "")


def _to_baseline(quality: Quality, at: tuple[int, int]) -> str:
    """The paired difference to the baseline with its interval and a word; empty of the baseline and of one draw."""
    if quality.to_baseline is None:
        return ""
    difference = quality.to_baseline.chosen_of(1)
    if np.isnan(difference.doubt[at]) or difference.mean[at] == 0:
        return ""
    return f"{signed(difference.at(at), 1)} {WORDS[difference.verdict(at)]}"


def _curves(study: Study, bits: int) -> str:
    """Perplexity by λ, a column for identity and one for each γ."""
    columns: list[tuple[str, LineFacts, int]] = []
    for name, words in PENALTIES:
        if (facts := _facts(study, name, bits)) is not None:
            columns += [
                (words if gamma is None else f"{words}, γ = {gamma:g}", facts, g)
                for g, gamma in enumerate(facts.line.gammas)
            ]
    lams = sorted({lam for _, facts, _ in columns for lam in facts.line.lams})
    draws = len(columns[0][1].line.draws)
    rows = [
        [f"{lam:g}"]
        + [_point(facts, g, facts.line.lams.index(lam)) if lam in facts.line.lams else "" for _, facts, g in columns]
        for lam in lams
    ]
    return table([f"λ ({draws} draw{'s' * (draws > 1)})", *(words for words, _, _ in columns)], rows)


def _others(study: Study, bits: int) -> str:
    """What has no λ, and better fitted grids."""

    def row(line: Line) -> Iterator[list[str]]:
        facts = line_facts(study, method=line.name, bits=bits, layer=None)
        for g, m in np.ndindex(len(line.gammas), len(line.lams)):
            lam = f", λ = {line.lams[m]:g}" if len(line.lams) > 1 or line.lams[0] else ""
            yield [f"{line.label}{lam}", _point(facts, g, m)]

    plain = {name for name, _ in PENALTIES}
    rows = [each for line in study.lines if line.bits == bits and line.name not in plain for each in row(line)]
    return table(["", "perplexity"], rows) if rows else ""


def _accuracies(study: Study, heading: str) -> Iterator[str]:
    """Zero-shot accuracy where it was measured, task by task."""
    tasks, limit = study.protocol.get("tasks", []), study.protocol.get("task_limit")
    if not tasks or limit is None:
        return
    rows = []
    for line in sorted(study.lines, key=lambda line: -line.bits):
        quality = line_facts(study, method=line.name, bits=line.bits, layer=None).accuracy
        if quality is None:
            continue
        correct = study.read(line, "correct")  # D G M T, items of one task after the other
        for g, m in zip(*np.isfinite(quality.mean).nonzero(), strict=True):
            answers = correct[0, g, m].reshape(len(tasks), limit)
            lam = f", λ = {line.lams[m]:g}" if len(line.lams) > 1 or line.lams[m] else ""
            difference = quality.to_baseline
            known = difference is not None and np.isfinite(difference.doubt[g, m]) and difference.mean[g, m] != 0
            rows.append(
                [
                    f"{line.bits} bits, {line.label}{lam}",
                    *(f"{share:.0%}" for share in answers.mean(axis=1)),
                    f"{answers.mean():.1%}",
                    signed(difference.chosen_of(1).at((g, m)).scaled(100), 1) if known else "–",
                ]
            )
    yield f"### {heading}"
    yield (
        f"The first {limit} items of each task, answered by lm-eval, on the first draw; the standard error of a share "
        f"of {limit} items is up to {50 / limit**0.5:.0f} points. Float model: {study.model.accuracy:.1%}. Differences "
        "to GPTQ 1 % are in points, with the 95 % interval over items: calibration text is one draw."
    )
    yield table(["", *tasks, "mean", "difference"], rows)


def _first_tokens(study: Study, document: dict[str, Any]) -> Iterator[str]:
    bits, draws = document["bits"], document["draws"]
    rounding, gptq = (study.line(name, bits) for name in ("rtn", "rqc-gbs"))
    errors = study.read(gptq, "held_out")[:, :, 0, gptq.lams.index(0.01)]  # D L
    lower = int((errors.mean(axis=0) < study.read(rounding, "held_out")[:, :, 0, 0].mean(axis=0)).sum())
    yield (
        f"Layer by layer GPTQ 1 % is better: on unseen text {lower} of {len(study.layers)} linears err less than "
        "rounded ones. The harm is in one kind of linear, the values (v_proj), and there in one token of each "
        "sequence. Attention rests on the first token wherever it has nothing better to read, so that every later "
        f"token reads its value. The Gram counts it once in {document['length']}, and GPTQ gives it up for the rest. A "
        "penalty on the drift keeps it, and so does counting it more often in the values' Gram, which brings most of "
        "the gain without a penalty. Saliency helps this model in large part by protecting that token."
    )
    names = list(document["float"])
    rows = []
    for at, case in enumerate(draws[0]):
        row = [case["case"]]
        row += [", ".join(_perplexity(draw[at]["perplexity"][name]) for draw in draws) for name in names]
        row += [f"{np.mean([draw[at][f'{which}_error'] for draw in draws]):.1%}" for which in ("first", "every")]
        rows.append(row)
    yield table(
        ["", *(f"perplexity, {name.partition(',')[0]}" for name in names), "error, first tokens", "error, all tokens"],
        rows,
    )
    floats = ", ".join(f"{name.partition(',')[0]} {value:.2f}" for name, value in document["float"].items())
    yield (
        f"{len(draws)} draws of {document['tokens']:,} tokens of {document['calibration']}, {bits} bits, "
        f"{document['kind']}, groups of {document['group_size']}; perplexities of each draw on "
        f"{document['test_tokens']:,} tokens (float: {floats}). Errors are "
        "relative errors of the outputs of the values, the median over blocks, on calibration text."
    )


def _runs(document: dict[str, Any]) -> Iterator[str]:
    first = document["runs"][0]["protocol"]
    again = [run["written"] for run in document["runs"]]
    assert not any(one["other_tensors"] or one["parts_at"] for one in again)  # as is said below
    assert all(run["written"]["tokens"] == 64 for run in document["runs"] if run["weights"] == "resident")
    hosts: dict[str, list[str]] = {}
    for run in document["runs"]:
        models = hosts.setdefault(host_words(run["host"], "make real"), [])
        models += [run["model"]] * (run["model"] not in models)
    yield " ".join(f"{' and '.join(models)}: {words}" for words, models in hosts.items())
    yield (
        "Each run begins with the GGUF file: its weights are unpacked, "
        f"quantized with λ = γ = 0.1 on {first['calibration']['tokens']:,} tokens of {first['calibration']['corpus']} "
        "(groups of 64, asymmetric), "
        f"measured on {first['test']['predicted_tokens']:,} tokens of {first['test']['corpus']}, exported, and read "
        "again by the format's own reader: every tensor is that of the measured model, and the model generates the "
        "same 64 tokens. “Streamed”: one block at a time is in memory, and tokens are not compared. In brackets is the "
        "plan of a host without a run before, whose minutes are a first guess. The goal is a tenth."
    )
    rows = [
        [
            f"{run['model']}, {run['bits']} bits{', streamed' * (run['weights'] == 'streamed')}",
            f"{run['minutes']:.1f} ({run['planned_minutes']:.1f})",
            f"{run['peak_bytes'] / 2**30:.1f} ({run['planned_bytes'] / 2**30:.1f})",
            _perplexity(run["perplexity_float"]),
            _perplexity(run["perplexity"]),
            f"{run['kl']:.3f}",
            f"{run['file_bytes'] / 2**20:,.0f}",
            f"{run['format']}, {run['exported_bytes'] / 2**20:,.0f}",
        ]
        for run in document["runs"]
    ]
    heads = ["", "minutes (planned)", "GiB (planned)", "float", "quantized", "KL", "file, MiB", "checkpoint, MiB"]
    yield table(heads, rows)
