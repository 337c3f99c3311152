"""What a calibration of a published model costs, counted: ``make bench MODEL=llama2-7b``.

python -m benchmarks.model_costs MODEL [--samples N] [--length T]
"""

import argparse
from dataclasses import fields, replace

from benchmarks.known_models import known_checkpoint, known_names
from sarqc.engine import costs
from sarqc.engine.throughput import PUBLISHED, published_rates
from sarqc.quantization.counts import Count
from sarqc.recipe import Recipe

_UNITS = {
    "products": ("T", 1e12),
    "losses": ("T", 1e12),
    "solves": ("T", 1e12),
    "rounded": ("G", 1e9),
    "clipped": ("G", 1e9),
    "started": ("M", 1e6),
    "read": ("GB", 1e9),
    "loaded": ("GB", 1e9),
    "moved": ("GB", 1e9),
}


def table(work: costs.Work) -> list[str]:
    """A row for each stage: its counts, then its seconds on each GPU."""
    gpus = {name: rates for name in PUBLISHED if (rates := published_rates(name)) is not None}
    heads = [f"{name}, {unit}" for name, (unit, _) in _UNITS.items()]
    lines = [" ".join([f"{'stage':32}", *(f"{head:>12}" for head in heads), *(f"{name:>10}" for name in gpus)])]
    total = Count()
    stages = {" ".join(filter(None, names)): count for names, count in costs.stages(work).items()}
    for name, count in [*stages.items(), ("all", total)]:
        total += count
        shown = total if name == "all" else count
        amounts = [f"{getattr(shown, field.name) / _UNITS[field.name][1]:12.1f}" for field in fields(Count)]
        lines.append(" ".join([f"{name:32}", *amounts, *(f"{gpu.seconds(shown):9.0f}s" for gpu in gpus.values())]))
    return lines


def spans(work: costs.Work) -> list[str]:
    """Seconds on each GPU where one, four or eight share the solving."""
    gpus = {name: rates for name in PUBLISHED if (rates := published_rates(name)) is not None}
    lines = [" ".join([f"{'seconds, solved on':32}", *(f"{name:>10}" for name in gpus)])]
    for span in (1, 4, 8):
        counts = costs.stages(replace(work, span=span)).values()
        seconds = (sum(map(gpu.seconds, counts)) for gpu in gpus.values())
        lines.append(" ".join([f"{span:>2} of them{'':23}", *(f"{one:9.0f}s" for one in seconds)]))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=known_names())
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--length", type=int, default=2048)
    wanted = parser.parse_args()
    checkpoint = known_checkpoint(wanted.model)
    print(f"{wanted.model}: {checkpoint.parameters / 1e9:.2f} billion parameters, {len(checkpoint.layers)} linears")
    print(f"{wanted.samples} × {wanted.length} tokens, 3 bits, GPTQ + saliency penalty, groups of 128; no perplexity.")
    print("Assumed: 3/4 of the published rates, of which large products reach half and solvers a quarter; an operation")
    print("starts in 11 µs; weights come at 2 GB/s, and go between processes at 5 GB/s, which nobody measured. Imports")
    print("and downloads are not counted.")
    for words, choice in (
        ("λ and γ given", {"lambda": 0.3, "gamma": 0.5}),
        ("λ and γ auto", {"lambda": "auto", "gamma": "auto"}),
    ):
        document = {
            "model": wanted.model, "bits": 3, "method": "sarqc-gbs", "calibration": "text", "samples": wanted.samples,
            "length": wanted.length, **choice,
        }  # fmt: skip
        print(f"\n{words}")
        work = costs.work_of(Recipe.parse(document), checkpoint)
        print("\n".join([*table(work), "", *spans(work)]))


if __name__ == "__main__":
    main()
