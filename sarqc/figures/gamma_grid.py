"""λ × γ as a map of quality; of a line over α or β λ × that."""

import numpy as np

from sarqc.figures.drawing import (
    PERCENT,
    SHADES,
    SLIM_BAR,
    Axis,
    Figure,
    bind_fields,
    box_shape,
    format_values,
    honest_range,
    lam_axis,
    new_figure,
    plain_numbers,
)
from sarqc.figures.numbers import NBSP, accuracy_text, lam_names, lam_text, perplexity_text, significant
from sarqc.figures.titles import constant_finding, error_of, fit_text, lam_point, least, set_finding
from sarqc.study.facts import LineFacts

NARROW = 400  # pixels, below which the names of more than FEW λ would touch
FEW = 6
FEWEST_GAMMAS = 3  # fewer rows show nothing that the γ slider does not, unless they are what λ is compared with


def gamma_grid(facts: LineFacts, quality_name: str = "perplexity") -> Figure | None:
    """Return λ × γ (or α, or β) as a map of a quality, or of the error on unseen text where that is not known
    everywhere; None for a line of few γ."""
    line, sign = facts.line, facts.line.sign
    if len(line.gammas) < (FEWEST_GAMMAS if line.second == "gamma" else 2):
        return None
    by_accuracy = quality_name == "accuracy"
    quality = facts.accuracy if by_accuracy else facts.perplexity
    complete = quality is not None and np.isfinite(quality.mean).all()
    values = quality.mean if complete and quality is not None else facts.held_out
    if values is None:
        values = facts.recon
    if values is None:
        return None
    show = significant if not complete else accuracy_text if by_accuracy else perplexity_text
    positive = np.array([lam > 0 for lam in line.lams])
    low, high = honest_range(values[:, positive], values[:, ~positive], pad=0.0)
    gammas = [lam_text(value or 0.0) for value in line.gammas]
    names = lam_names(line)
    across = lam_axis(names) | {"showgrid": False, "title": {"text": "λ", "standoff": 2}}
    across |= {"tickfont": {"size": 11}, "range": [-0.5, len(line.lams) - 0.5]}
    up = {
        "type": "category",
        "fixedrange": True,
        "ticks": "",
        "showgrid": False,
        "title": {"text": sign, "standoff": 2},
    }
    up["range"] = [-0.53, len(gammas) - 0.47]  # and the frame
    bar = SLIM_BAR | {"nticks": 4, "tickfont": {"size": 11}, "tickformat": PERCENT if complete and by_accuracy else ""}
    trace = {
        "type": "heatmap",
        "x": names,
        "y": gammas,
        "z": plain_numbers(values),
        "zmin": low,
        "zmax": high,
        "colorscale": SHADES,
        "reversescale": complete and by_accuracy,  # dark is good on every map
        "xgap": 2,
        "ygap": 2,
        "text": format_values(values, show),
        "hovertemplate": f"λ = %{{x}}, {sign} = %{{y}}: %{{text}}<extra></extra>",
        "colorbar": bar,
    }
    thinned = [name if index % 2 == 0 or len(names) <= FEW else "" for index, name in enumerate(names)]
    narrow = {"layout.margin.l": 34, "layout.margin.r": 44, "layout.xaxis.ticktext": thinned}
    figure = new_figure(across, up, left=40, right=52, top=6, bottom=34, narrow=narrow, narrow_below=NARROW)
    figure["data"].append(trace)
    figure["layout"]["shapes"].append(box_shape((0, 1), (0, 1), {"color": "var(--ink)", "width": 2}))
    sides: tuple[tuple[str, int, Axis], ...] = (("x", len(names), "lambda"), ("y", len(gammas), "gamma"))
    for side, count, axis in sides:
        ends = {f"{side}{end}": [shift + i for i in range(count)] for end, shift in enumerate((-0.5, 0.5))}
        bind_fields(figure, "layout.shapes.0", ends, axis)
    quantity = "reconstruction error"
    if complete:
        quantity = "accuracy" if by_accuracy else "perplexity on unseen text"
    figure["title"] = f"λ × {sign}: {quantity}"
    if not by_accuracy:  # whose test items are a sample too
        name = error_of(facts)
        draws = quality.values if complete and quality is not None else None if name is None else facts.selected(name)
        noun = "Perplexity" if complete else "Error"
        set_finding(figure, None if draws is None else constant_finding(_finding(facts, draws, noun)))
    least_text, most_text = (show(float(end(values))) for end in (np.nanmin, np.nanmax))
    figure["aria"] = f"Map of {quantity} over λ and {sign}, from {least_text} to {most_text}."
    return figure


def _finding(facts: LineFacts, draws: np.ndarray, noun: str) -> str:
    """State where the smallest value lies, and whether γ (or α, or β) matters there; ``draws``: D G M."""
    sign = facts.line.sign
    n_g, n_m = draws.shape[1:]
    (best,), (band,) = least(draws.reshape(len(draws), 1, n_g * n_m))
    if best is None:
        return ""
    near = band.reshape(n_g, n_m)
    if near.all():
        return f"{noun} depends clearly on neither λ nor {sign}"
    if near.any(axis=1).all():
        return f"At the best λ of each, no {sign} stands out"
    gamma, lam = divmod(best, n_m)
    shape = f"{sign}{NBSP}={NBSP}{lam_text(facts.line.gammas[gamma] or 0.0)}"
    words = f"{noun} is lowest at {lam_point(facts.line.lams[lam])}, {shape}"
    return fit_text(words if band.any() else f"{words} on one draw")
