"""Writes docs/results.md from the shipped studies and from the files beside it.

``--check`` only compares.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import gmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import results_of_costs
import results_of_engines
import results_of_gpus
import results_of_knobs
import results_of_opening
import results_of_real
import results_of_scale
import results_of_spans
import results_of_tuning
from make_reference import table

from benchmarks.quality.table import signed
from sarqc.calibration.corpora import draw_sequences, text_of
from sarqc.figures.ladder import ladder_words, rung_name
from sarqc.models.catalogue import checkpoint_of
from sarqc.quantization.methods import METHODS, ScaleSearch
from sarqc.settings import Settings
from sarqc.study.document import Line, Study
from sarqc.study.facts import has_lam, lam_index, line_facts, read_selection
from sarqc.study.frames import frame
from sarqc.study.ladder import Ladder, ladder
from sarqc.study.paired import Difference, clear_from, geometric_mean, mean_over_draws, paired_ratio

PAGE = Path(__file__).parent / "results.md"
EVERY_STEP = Path(__file__).parent / "every_step.md"  # measured once, and kept as text
STUDIES = Path(__file__).resolve().parent.parent / "assets" / "studies"
WITH_SALIENCY = ("sarqc-gs", "sarqc-gbs", "sarqc-gptaq", "sarqc-omniquant")
WITH_IDENTITY = (
    "“AWQ” and the other scale searches have s̃ = 1 among their candidates, which is rounding to nearest: the default "
    "of this project (`include_identity`), not of AWQ nor of the paper."
)
VERDICTS = {-1: "better", 0: "not clear of 0", 1: "worse"}
WORDS = {-1: "better than", 0: "not significantly different from", 1: "worse than"}


def chosen_text(line: Line, layers: pd.DataFrame) -> str:
    """What “auto” took: every λ that it took for the model, or of its choices for layers the most frequent."""
    if line.selected is None:
        return f"given: λ {line.lams[0]:g}" if line.fitting and has_lam(line) else "–"
    chosen = of_line(layers, line).round({"selected_lambda": 6, "selected_gamma": 6})
    if line.selected == "model":
        return "λ " + ", ".join(f"{lam:g}" for lam in sorted(chosen["selected_lambda"].unique()))
    if "lam" not in METHODS[line.method].tunes:
        counts = chosen["selected_strength"].value_counts()
        return f"α {counts.index[0]:g} ({counts.iloc[0] / counts.sum():.0%} of layers)"
    counts = chosen.groupby(["selected_lambda", "selected_gamma"], dropna=False).size()
    lam, gamma = counts.idxmax()
    share = f"{counts.max() / counts.sum():.0%} of layers"
    return f"λ {lam:g} ({share})" if np.isnan(gamma) else f"λ {lam:g}, γ {gamma:g} ({share})"


def of_line(rows: pd.DataFrame, line: Line) -> pd.DataFrame:
    return rows[(rows["method"] == line.name) & (rows["bits"] == line.bits)]


def compared(line: Line, points: pd.DataFrame) -> tuple[str, str] | None:
    """The paired difference of perplexity to the baseline with its 95 % interval, and what it says in words."""
    if line.method == line.baseline:
        return None
    by_draw = points[points["bits"] == line.bits].pivot(index="draw", columns="method", values="perplexity")
    difference = paired_ratio(by_draw[line.name].to_numpy(), by_draw[line.baseline].to_numpy())
    return said(difference, 2), f"{WORDS[difference.verdict(())]} {METHODS[line.baseline].title}"


def beside_others(lines: list[Line], points: pd.DataFrame, bits: int) -> str:
    """Lines on a better fitted grid beside the methods that correct or learn more, paired over draws."""
    by_draw = points[points["bits"] == bits].pivot(index="draw", columns="method", values="perplexity")
    sentences = []
    for line in (one for one in lines if one.bits == bits and one.fitting):
        words = []
        for other in (one for one in lines if one.bits == bits and one.name in ("gptaq", "omniquant")):
            difference = paired_ratio(by_draw[line.name].to_numpy(), by_draw[other.name].to_numpy())
            words.append(f"{WORDS[difference.verdict(())]} {other.label}, {said(difference, 2)}")
        sentences.append(f"{line.label}, is {'; and '.join(words)}.")
    return " ".join(sentences)


def compared_accuracy(study: Study, line: Line) -> str:
    """The paired difference of accuracy to the baseline, in points, with its 95 % interval; a word where clear."""
    quality = line_facts(study, method=line.name, bits=line.bits, layer=None).accuracy
    if line.method == line.baseline or quality is None or quality.to_baseline is None:
        return "–"
    difference, at = quality.to_baseline.chosen_of(1), (0, 0)
    return said(difference.at(at).scaled(100), 1) + {-1: ", worse", 0: "", 1: ", better"}[difference.verdict(at)]


def smallest_taken(study: Study) -> str:
    """How often “auto” took the smallest λ of its candidates, where it chose for each layer."""
    tuned = [line for line in study.lines if line.selected == "layer" and "lam" in METHODS[line.method].tunes]
    selections = [read_selection(study, line) for line in tuned]
    shares, smallest = [], set()
    for selection in filter(None, selections):
        smallest.add(min(selection.lams))
        shares.append(float(np.isclose(selection.lam, min(selection.lams)).mean()))
    (lam,) = smallest
    return (
        f"Where “auto” chooses for each layer, it takes λ = {lam:g}, the smallest of the paper's candidates, in "
        f"{min(shares):.1%} to {max(shares):.1%} of the layers, by method and width. No smaller λ was tried there, so "
        "these rows do not say where the best λ of a layer lies."
    )


def shared_windows(study: Study) -> str:
    """How much of their text two draws have in common."""
    calibration, settings = study.protocol["calibration"], Settings()
    checkpoint = checkpoint_of(study.model.name, None, settings)
    assert checkpoint is not None  # the embedded model
    text = text_of(calibration["corpus"], checkpoint, settings)
    samples, length = calibration["samples"], calibration["length"]
    drawn = [
        {
            window.tobytes()
            for window in draw_sequences(
                text, samples=samples, length=length, held_out_samples=0, sampling=calibration["sampling"], seed=seed
            ).calibration
        }
        for seed in study.lines[0].draws
    ]
    shared = [len(one & other) for one, other in itertools.combinations(drawn, 2)]
    return (
        f"The draws come from one text of {len(text.ids) // length} windows; two of them share {min(shared)} to "
        f"{max(shared)} of their {samples}, so that they are almost, but not quite, independent."
    )


def methods_table(study: Study, lines: list[Line], points: pd.DataFrame, layers: pd.DataFrame) -> str:
    measured = points.groupby(["method", "bits"])
    means = pd.DataFrame({"perplexity": measured["perplexity"].agg(gmean), "accuracy": measured["accuracy"].mean()})
    spread = measured["perplexity"].std()
    rows = []
    for line in lines:
        at = (line.name, line.bits)
        difference, verdict = compared(line, points) or ("–", "–")
        perplexity = f"{means.loc[at, 'perplexity']:.2f} ({spread[at]:.2f})"
        accuracy = f"{means.loc[at, 'accuracy']:.1%}"
        rows.append(
            [
                line.label,
                chosen_text(line, layers),
                perplexity,
                difference,
                verdict,
                accuracy,
                compared_accuracy(study, line),
            ]
        )
    return table(
        ["method", "chosen", "perplexity (over draws)", "paired difference", "", "accuracy", "difference in points"],
        rows,
    )


def summary(lines: list[Line], points: pd.DataFrame) -> str:
    """A sentence for each width: what the selected drift penalty does to its baselines."""
    sentences = []
    for bits in sorted({line.bits for line in lines}):
        words = [
            f"{line.label} is {verdict[1]}, {verdict[0]}"
            for line in lines
            if line.bits == bits and line.method in WITH_SALIENCY and (verdict := compared(line, points)) is not None
        ]
        sentences.append(f"- **{bits} bits:** {'; '.join(words)}.")
    return "\n".join(sentences)


def gap_table(study: Study, bits: int) -> str:
    """Mean relative error over layers and draws, on calibration and on unseen text, by calibration sequences."""
    line = study.line("rqc-gbs", bits)
    length = study.protocol["calibration"]["length"]
    recon, held_out = (
        mean_over_draws(np.asarray(study.array(line, f"{name}_by_size")).mean(axis=1)) for name in ("recon", "held_out")
    )  # size, γ, λ
    columns = [index for lam in (0.0, 0.01, 0.3, 1.0) if (index := lam_index(line, lam)) is not None]
    rows = [
        [f"{size * length:,}", *(f"{recon[at, 0, i]:.3f} / {held_out[at, 0, i]:.3f}" for i in columns)]
        for at, size in enumerate(line.sizes)
    ]
    return table(["calibration tokens", *(f"λ = {line.lams[i]:g}" for i in columns)], rows)


def said(difference: Difference | None, decimals: int) -> str:
    if difference is None:
        return "–"
    return signed(difference, decimals)


def ladder_table(climbed: Ladder) -> str:
    everywhere = [
        (name, head, decimals)
        for name, head, decimals in (("perplexity", "perplexity", 2), ("kl", "KL, nats a token", 4))
        if all(name in rung.values for rung in climbed.rungs)
    ]
    rows = []
    for rung in climbed.rungs:
        row = [rung_name(rung)]
        for name, _, decimals in everywhere:
            row += [f"{rung.mean(name):.{decimals}f}", said(rung.differences.get(name), decimals)]
        rows.append(row)
    heads = [part for _, head, _ in everywhere for part in (head, "paired difference")]
    return table(["step", *heads], rows)


def damped_table(study: Study) -> str:
    """The column solver with starved experts damped beside the plain one at the same λ."""
    rows = []
    for line in (line for line in study.lines if line.fitting == {"expert_damping": "damped"}):
        facts = line_facts(study, method=line.name, bits=line.bits, layer=None)
        assert facts.perplexity is not None
        assert facts.to_plain is not None
        for at, lam in enumerate(line.lams):
            difference = facts.to_plain.at((0, at))
            damped = float(facts.perplexity.mean[0, at])
            values = [f"{damped - float(difference.mean):.2f}", f"{damped:.2f}"]
            verdict = VERDICTS[difference.verdict(())]
            rows.append([f"{line.bits}", f"{lam:g}", *values, said(difference, 2), verdict])
    return table(["bits", "λ", "the same λ", "λ (1 + width / tokens)", "paired difference", ""], rows)


def worth_table(climbed: Ladder) -> str:
    """What each step is worth in perplexity on the min–max grid, and with all the other steps taken."""
    titles = {step["name"]: step["title"] for step in ladder_words(climbed)["steps"]}
    rows = []
    for step in climbed.steps:
        row = [titles[step]]
        for each in (climbed.alone[step]["perplexity"], climbed.last[step]["perplexity"]):
            row += [said(each, 2), "one draw" if np.isnan(each.doubt) else VERDICTS[each.verdict(())]]
        rows.append(row)
    return table(["step", "alone, on the min–max grid", "", "after all the others", ""], rows)


def ladders(study: Study) -> list[str]:
    """A ladder for each width that the study has one for."""
    parts = []
    for bits in sorted({line.bits for line in study.lines}):
        climbed = ladder(study, bits)
        if climbed is not None:
            parts += [f"### {study.model.name}, {bits} bits", ladder_table(climbed), worth_table(climbed)]
            parts += [
                f"{line.title}, λ = {line.lams[-1]:g}: "
                f"{geometric_mean(study.read(line, 'perplexity')[:, 0, -1]):.2f}, "
                f"KL {mean_over_draws(study.read(line, 'kl')[:, 0, -1]):.4f}."
                for line in study.lines
                if line.bits == bits and "warm_start" in line.fitting
            ]
    return parts


def _files() -> str:
    """The JSON files of measurements that are there."""
    *names, last = (f"`docs/{file.name}`" for file in sorted(Path(__file__).parent.glob("*.json")))
    return f"{', '.join(names)} and {last}"


def page() -> str:
    runs, explored, mixture = (Study.open(STUDIES / name) for name in ("tiny-llama-methods", "tiny-llama", "tiny-moe"))
    lines, points, layers = runs.lines, frame(runs, "points"), frame(runs, "layers")
    calibration, test = runs.protocol["calibration"], runs.protocol["test"]
    draws, awq = len(lines[0].draws), METHODS["awq"].make
    assert isinstance(awq, ScaleSearch)
    parts = [
        "# What the methods give",
        f"Written by `python docs/make_results.py` from the studies in `assets/studies` and from "
        f"{_files()}; `make check` compares it.",
        "## Every method, as a run would do it",
        f"{runs.model.name}, {lines[0].grid}, groups of {lines[0].group_size}, quantized prefix; "
        f"{calibration['samples']} × {calibration['length']} calibration tokens, the same {len(lines[0].draws)} "
        f"random draws for every method; perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']} in "
        f"windows of {test['window']} (float: {runs.model.perplexity:.2f}); "
        f"accuracy on {runs.protocol['items']} items (float: "
        f"{runs.model.accuracy:.1%}). In brackets beside a perplexity the standard deviation over draws, beside a "
        f"paired difference its 95 % interval, {float(clear_from(draws - 1)):.2f} standard errors each way (Student's "
        f"t with {draws - 1} degrees of freedom); a difference counts where that excludes 0. Nothing is corrected for "
        "the number of rows: none of them is chosen here as the best. Accuracies are compared with the same baselines, "
        "paired over draws and items, and their intervals hold both. “auto” saw neither the test nor the unseen text: "
        "what chose λ does not judge it.",
        shared_windows(runs),
        *([WITH_IDENTITY] if awq.include_identity else []),
        smallest_taken(runs),
        "What the saliency penalty gives with λ (and γ) chosen by “auto”:",
        summary(lines, points),
    ]
    for bits in sorted({line.bits for line in lines}):
        parts += [
            f"### {bits} bits",
            methods_table(runs, [line for line in lines if line.bits == bits], points, layers),
            beside_others(lines, points, bits),
        ]
    parts += [
        "## What each step is worth",
        "The column solver on the float prefix, the same draws for every row: each takes one more step than the one "
        "above and keeps the others. Steps are not additive: what each is worth depends on those before. Learned "
        "rounding goes through whole blocks, begins at the nearest levels and stands in the place of all steps.",
        *ladders(explored),
        *ladders(mixture),
        *ladders(Study.open(STUDIES / "smollm2")),
        EVERY_STEP.read_text(encoding="utf-8").rstrip(),
        "## Experts that few tokens reach",
        f"{mixture.model.name}, the column solver with identity on the float prefix. “Damped” gives a linear of an "
        "expert more of the penalty, the fewer tokens were routed to it. Perplexity:",
        damped_table(mixture),
    ]
    parts += [
        "## More calibration text, smaller gap",
        "Mean relative reconstruction error over layers and draws of the column solver with identity, on the "
        "calibration text / on unseen text (float prefix). λ = 0.01 is GPTQ.",
    ]
    for bits in sorted({line.bits for line in explored.lines if line.sizes}):
        parts += [f"### {bits} bits", gap_table(explored, bits)]
    parts += results_of_knobs.parts()
    parts += results_of_real.parts()
    parts += results_of_engines.parts()
    parts += results_of_opening.parts()
    parts += results_of_tuning.parts()
    parts += results_of_costs.parts()
    parts += results_of_scale.parts()
    parts += results_of_gpus.parts()
    parts += results_of_spans.parts()
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/results.md is not current: run python docs/make_results.py")
    else:
        PAGE.write_text(text, encoding="utf-8")
