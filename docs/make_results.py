"""Writes docs/results.md from the shipped studies, so that no number on it was typed. ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from make_reference import table

from sarqc.study.document import Line, Study
from sarqc.study.facts import LineFacts, lam_index, line_facts
from sarqc.study.paired import mean_over_draws

PAGE = Path(__file__).parent / "results.md"
STUDIES = Path(__file__).resolve().parent.parent / "assets" / "studies"
SARQC = ("sarqc-gs", "sarqc-gbs", "sarqc-gptaq", "sarqc-omniquant")
WORDS = {-1: "better than", 0: "not to be told from", 1: "worse than"}


def all_facts(study: Study) -> list[LineFacts]:
    return [line_facts(study, method=line.name, bits=line.bits, layer=None) for line in study.lines]


def chosen_text(study: Study, line: Line) -> str:
    """What “auto” took: every λ that it took for the model, or of its choices for layers the most frequent."""
    if line.selected is None:
        return "–"
    lams = study.array(line, "selected_lambda")
    if line.selected == "model":
        return "λ " + ", ".join(f"{value:g}" for value in np.unique(lams[:, 0].round(6)))
    gammas = np.nan_to_num(study.array(line, "selected_gamma"), nan=-1.0)  # -1: the method has none
    pairs, counts = np.unique(np.stack([lams, gammas], -1).reshape(-1, 2).round(6), axis=0, return_counts=True)
    lam, gamma = pairs[counts.argmax()]
    share = f"{counts.max() / counts.sum():.0%} of layers"
    return f"λ {lam:g} ({share})" if gamma < 0 else f"λ {lam:g}, γ {gamma:g} ({share})"


def compared(facts: LineFacts) -> tuple[str, str] | None:
    """The paired difference of perplexity to the baseline with its standard error, and what it says in words."""
    quality = facts.perplexity
    if facts.baseline is None or quality.to_baseline is None or facts.line.method == facts.line.baseline:
        return None
    difference = quality.to_baseline
    mean, error = float(difference.mean[0, 0]), float(difference.error[0, 0])
    number = f"{mean:+.2f} ± {error:.2f}".replace("-", "−")
    return number, f"{WORDS[difference.verdict((0, 0))]} {facts.baseline.label}"


def methods_table(found: list[LineFacts]) -> str:
    rows = []
    for facts in found:
        values = facts.perplexity.values[:, 0, 0]
        spread = values.std(ddof=1) if len(values) > 1 else float("nan")
        difference, verdict = compared(facts) or ("–", "–")
        accuracy = float(facts.accuracy.mean[0, 0])
        rows.append(
            [facts.line.label, chosen_text(facts.study, facts.line), f"{values.mean():.2f} ({spread:.2f})", difference,
             verdict, f"{accuracy:.1%}"]
        )  # fmt: skip
    head = ["method", "chosen", "perplexity (over draws)", "paired difference", "", "accuracy"]
    return table(head, rows)


def summary(found: list[LineFacts]) -> str:
    """One sentence for each width: what the selected drift penalty does to its baselines."""
    said = []
    for bits in sorted({facts.line.bits for facts in found}):
        words = [
            f"{facts.line.label} is {said_of[1]} ({said_of[0]})"
            for facts in found
            if facts.line.bits == bits and facts.line.method in SARQC and (said_of := compared(facts)) is not None
        ]
        said.append(f"- **{bits} bits:** {'; '.join(words)}.")
    return "\n".join(said)


def gap_table(study: Study, bits: int) -> str:
    """Mean relative error over layers and draws, on calibration and on unseen text, by calibration sequences."""
    line = study.line("rqc-gbs", bits)
    length = study.protocol["calibration"]["length"]
    recon, unseen = (
        mean_over_draws(np.asarray(study.array(line, f"{name}_by_size")).mean(axis=1)) for name in ("recon", "held_out")
    )  # size, γ, λ
    shown = [index for lam in (0.0, 0.01, 0.3, 1.0) if (index := lam_index(line, lam)) is not None]
    rows = [
        [f"{size * length:,}", *(f"{recon[at, 0, i]:.3f} / {unseen[at, 0, i]:.3f}" for i in shown)]
        for at, size in enumerate(line.sizes)
    ]
    return table(["calibration tokens", *(f"λ = {line.lams[i]:g}" for i in shown)], rows)


def page() -> str:
    runs, explored = (Study.open(STUDIES / name) for name in ("tiny-llama-methods", "tiny-llama"))
    found = all_facts(runs)
    calibration, test = runs.protocol["calibration"], runs.protocol["test"]
    parts = [
        "# What the methods give",
        "Written by `python docs/make_results.py` from the studies in `assets/studies`; `make check` compares it.",
        "## Every method, as a run would do it",
        f"{runs.model.name}, {found[0].line.grid}, groups of {found[0].line.group_size}, quantized prefix; "
        f"{calibration['samples']} × {calibration['length']} calibration tokens, the same {len(found[0].line.draws)} "
        f"random draws for every method; perplexity on {test['predicted_tokens']:,} tokens of {test['corpus']} in "
        f"windows of {test['window']} (float: {runs.model.perplexity:.2f}); "
        f"accuracy on {runs.protocol['items']} items (float: "
        f"{runs.model.accuracy:.1%}). In brackets the standard deviation over draws; ± is the standard error of the "
        "paired difference; a difference counts from two standard errors on. “auto” saw neither the test nor the "
        "unseen text.",
        "What the drift penalty gives with λ (and γ) chosen by “auto”:",
        summary(found),
    ]
    for bits in sorted({facts.line.bits for facts in found}):
        parts += [f"### {bits} bits", methods_table([facts for facts in found if facts.line.bits == bits])]
    parts += [
        "## More calibration text, smaller gap",
        "Mean relative reconstruction error over layers and draws of the column solver with identity, on the "
        "calibration text / on unseen text (float prefix). λ = 0.01 is GPTQ.",
    ]
    for bits in sorted({line.bits for line in explored.lines if line.sizes}):
        parts += [f"### {bits} bits", gap_table(explored, bits)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/results.md is not current: run python docs/make_results.py")
    else:
        PAGE.write_text(text, encoding="utf-8")
