"""Messages of a run on stderr while it goes: on a terminal a bar with the time left, elsewhere plain lines."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from sarqc.documents import SIGNS, PrintedRun, distances
from sarqc.errors import disk_full
from sarqc.events import (
    BlockRounded,
    CandidateDone,
    DryRun,
    EpochDone,
    Event,
    LadderStanding,
    LayerDone,
    PointDone,
    RoundingChecked,
    Saved,
    Stage,
    Started,
    TuningStanding,
    Warned,
)
from sarqc.files.room import WAITS, free_bytes, met_full_disk, wait_for_more
from sarqc.plain import gib

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def print_json(document: object) -> None:
    """Print a document as the one JSON object on stdout."""
    print(json.dumps(document, ensure_ascii=False))


class ProgressBar:
    """Prints the events of one run as they come. ``close`` removes the bar and prints the number of layers.

    On a terminal the layers have a bar with the time left; a file or a pipe gets one line for each stage.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._on_terminal = self._file.isatty()
        self._bar: Any = None
        self._layers = self._done = self._from_disk = 0
        self._known = (-1, False)  # draws, and whether the errors of layers were compared, as printed last

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def tell(self, event: Event) -> None:
        match event:
            case Started():
                self._layers = len(event.layers)
            case LayerDone():
                self._done, self._from_disk = self._done + 1, self._from_disk + event.from_cache
                if self._on_terminal:
                    self._open_bar().update()
            case EpochDone() | RoundingChecked() | PointDone():
                if self._on_terminal:
                    self._open_bar().set_description(words(event))
            case Stage():
                self.close()
                self._line(words(event))
            case CandidateDone() | BlockRounded() | DryRun() | Warned() | Saved():
                self._line(words(event))
            case TuningStanding():
                standing = (event.tuning["draws"], bool(event.tuning["suggested"]))
                if standing != self._known and standing != (0, False):
                    self._known = standing
                    self._line(words(event))
            case LadderStanding():
                if event.ladder["measured"] and not event.ladder["end"]:
                    self._line(words(event))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._done:
            from_disk = f", {self._from_disk} of them from disk" if self._from_disk else ""
            self._line(f"{self._done} of {self._layers} layers{from_disk}")
        self._done = self._from_disk = 0

    def _open_bar(self) -> Any:
        """Return the bar, made with the first layer, so that its clock does not count the loading of the model."""
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=self._layers, unit="layer", file=self._file, dynamic_ncols=True, leave=False)
        return self._bar

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=self._file)
        else:
            print(text, file=self._file, flush=True)


def words(event: Event) -> str:
    """Return an event in words."""
    match event:
        case Stage():
            return f"{event.name}: {event.detail}" if event.detail else event.name
        case DryRun():
            if event.peak_bytes is None or event.device_bytes is None:
                return f"the largest layer was tried in {event.seconds:.1f} s"
            return f"the largest layer fits: {gib(event.peak_bytes)} of {gib(event.device_bytes)} at the peak"
        case EpochDone():
            return f"block {event.block}, epoch {event.epoch} of {event.epochs}, objective {event.objective:.3g}"
        case RoundingChecked():
            error = f"{event.held_out_error:.3g}"
            return f"block {event.block}, step {event.step} of at most {event.steps}, held-out error {error}"
        case BlockRounded():
            first = event.checks[0]["held_out_error"]
            chosen = next(check for check in event.checks if check["step"] == event.kept)
            errors = f"held-out error {first:.3g} → {chosen['held_out_error']:.3g}"
            return (
                f"block {event.block} keeps the state after {event.kept} of at most {chosen['steps']} steps, {errors}"
            )
        case PointDone():
            return f"{event.index + 1} of {event.total} λ solved"
        case CandidateDone():
            return f"λ = {event.lam:g}: perplexity {event.perplexity:.4g} on the sequences kept for judging"
        case TuningStanding():
            from sarqc.figures.tuning import progress_text

            return f"{progress_text(event.tuning)}; {event.tuning['seconds']:.0f} s"
        case LadderStanding():
            return f"{event.ladder['measured']} of at most {event.ladder['planned']} models measured"
        case Warned():
            return f"note: {event.what}" + (f" ({event.where})" if event.where else "")
        case Saved():
            return f"saved {event.what}: {event.path}"
    return event.type


def waiting_for_room(begin: Callable[[], Iterator[Event]], folder: Path) -> Iterator[Event]:
    """Yield the events of a run that stores its results on the disk with a folder.

    If that is full, yield a warning, wait for more room, and go on from the stored results.
    """
    while True:
        try:
            yield from begin()
            return
        except Exception as error:
            if not met_full_disk(error):
                raise
            free = free_bytes(folder)
        yield Warned(f"{WAITS} It goes on by itself when there is some. {disk_full().remedy}", str(folder))
        wait_for_more(folder, free)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with their cells below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_view(view: Mapping[str, Any]) -> None:
    """Print the table and the words of a run that compares models."""
    from sarqc.figures.sentence import plain

    columns, rows = view["table"]["columns"], view["table"]["rows"]
    cells = [[_cell(row[column["key"]], column["kind"]) for column in columns] for row in rows]
    print_table([[column["title"] for column in columns], *cells])
    for line in (plain(view["sentence"]), *view["small_print"]):
        typer.echo(line.replace("\u00a0", " "))


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return "–"
    return f"{100 * value:+.2f} %" if kind == "change" else f"{value:.4g}" if isinstance(value, float) else str(value)


def print_summary(summary: PrintedRun) -> None:
    """Print the numbers of a finished run, for people."""
    from sarqc.figures import ladder_view, tuning_view

    def line(name: str, value: str) -> None:
        typer.echo(f"{name:<22}{value}")

    if tuning := summary.get("tuning"):
        _print_view(tuning_view(tuning, summary["recipe"]))
        return
    if ladder := summary.get("ladder"):
        _print_view(ladder_view(ladder, summary["recipe"]))
        return
    line("share quantized", f"{summary['share_quantized']:.1%} of the parameters")
    for number, (what, which) in enumerate(_list_choices(summary)):
        line("chosen by “auto”" if number == 0 else "", f"{what:<20}{which}")
    if (selection := summary.get("selection")) and "edge" in selection:
        line("", selection["edge"])
    if summary["perplexity"] is not None and (test := summary["protocol"]["test"]) is not None:
        line("perplexity", f"{summary['perplexity']:.4g}, float {summary['perplexity_float']:.4g}")
        part = f", {test['part']}" if test.get("part") else ""
        line("", f"{test['corpus']}{part}, windows of {test['window']}, {test['predicted_tokens']:,} predicted tokens")
    for name, value in distances(summary):
        line(name, value)
    document = cast(dict[str, Any], summary)
    for head, name in (
        ("opened", "opened"),
        ("repair", "repair"),
        ("rotation", "rotation"),
        ("scales", "distillation"),
        ("beside GPTQ", "baseline"),
    ):
        if outcome := document.get(name):
            line(head, " ".join(filter(None, (outcome["words"], outcome.get("layers_words")))))
    if size := summary.get("bytes_after"):
        line("size", f"{size / 2**20:.4g} MiB, {summary['bits_per_weight']:.3g} bits per quantized weight")
    for name, task in summary["tasks"].items():
        quantized, original = task["quantized"], task["float"]
        line(
            f"accuracy, {name}",
            f"{quantized['accuracy']:.1%} ± {quantized['standard_error']:.1%}, float {original['accuracy']:.1%}",
        )
        if "acc_norm" in quantized:
            error = quantized["acc_norm_standard_error"]
            line("  by length", f"{quantized['acc_norm']:.1%} ± {error:.1%}, float {original['acc_norm']:.1%}")
    if summary["tasks"] or summary.get("log_ratio") is not None:
        line("±", "one standard error, of accuracies over items, else over windows of the test text")
    for text in summary.get("texts", []):
        for mode, texts in (("greedy", text["greedy"]), ("sampled", text["sampled"])):
            first, kl = texts["divergence"], texts["kl"]
            where = "the same text" if first is None else f"apart from token {first + 1}"
            line(f"text, {mode}", f"{where}, KL {sum(kl) / len(kl):.3g} nats a token, “{text['prompt'][:40]}”")
    if speed := summary.get("speed"):
        for which, rates in (("quantized", speed["quantized"]), ("float", speed["float"])):
            if rates:
                line(f"speed, {which}", f"prefill {rates['prefill']:.4g}, decoding {rates['decode']:.4g} tokens/s")
        if speed["reason"]:
            line("speed", speed["reason"])
    if written := summary.get("written"):
        line("files", written["words"])
    if stamp := summary.get("stamp"):
        line("stamp", stamp)
    ratios = [layer["report"]["relative_recon"] for layer in summary["layers"]]
    recon = [ratio for ratio in ratios if ratio is not None]  # None: no token came
    line("reconstruction error", f"{sum(recon) / len(recon):.4g} relative, mean over {len(recon)} layers")


def _list_choices(summary: PrintedRun) -> list[tuple[str, str]]:
    """Return the choice of “auto”: λ for the whole model with its rivals, or how many layers chose each pair."""
    selection = summary.get("selection")
    if selection and selection["by"] == "model":
        return [
            (
                f"λ = {candidate['lambda']:g}",
                f"perplexity {candidate['perplexity']:.4g}"
                + (", chosen" if candidate["lambda"] == selection["lambda"] else ""),
            )
            for candidate in selection["candidates"]
        ]
    reports = [layer["report"] for layer in summary["layers"] if layer["report"].get("candidates")]
    chosen = Counter(tuple(report["chosen"].get(name) for name in SIGNS) for report in reports)
    tried = dict.fromkeys(
        tuple(candidate.get(name) for name in SIGNS) for report in reports for candidate in report["candidates"]
    )
    return [
        (
            ", ".join(
                f"{sign} = {value:g}" for sign, value in zip(SIGNS.values(), point, strict=True) if value is not None
            ),
            f"{chosen[point]} of {len(reports)} layers",
        )
        for point in tried
        if chosen[point]
    ]
