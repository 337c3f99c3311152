"""Studies in a notebook: tables as DataFrames, and the Lab's figures as plotly's own objects.

    from sarqc import Study, compare

    study = Study.open("tiny-llama")  # a name that the app lists, or a folder
    study.frame("points").groupby(["method", "bits", "lambda"])["perplexity"].mean()
    study.figure("trade_off", method="sarqc-gbs", bits=2, lam=0.1)

pandas and plotly are imported on use.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sarqc.errors import NotFound, Refused
from sarqc.figures.plotly_figure import Theme, colours_of, plotly_figure
from sarqc.figures.view import lab_view
from sarqc.settings import Settings
from sarqc.study.document import Study as StoredStudy
from sarqc.study.document import one_draw
from sarqc.study.facts import lam_index, line_facts
from sarqc.study.frames import Table, frame
from sarqc.study.library import Library

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

# Further name of the Lab's main figure.
ALIASES = {"trade_off": "curves"}


class StudyWithFigures(StoredStudy):
    """A finished study with its tables and figures."""

    @classmethod
    def open(cls, where: Path | str) -> Self:
        """Open a study in a folder, or by a name on this host: shipped, made by a run, uploaded.

        Args:
            where: Folder or name.

        Raises:
            NotFound: If there is no such study.
            Refused: If it is damaged or newer than this version.
        """
        folder = Path(where)
        if not (folder / "study.json").is_file() and folder.name == str(where):
            folder = Library(Settings(), lambda _: ()).folder(str(where))
        return super().open(folder)

    def frame(self, table: Table = "points") -> pd.DataFrame:
        """Return the table “points” or “layers”, one row for each draw, layer, γ and λ.

        For columns and units see ``sarqc.study.frames``.

        Raises:
            NotFound: For another name.
        """
        return frame(self, table)

    def figure(
        self,
        name: str = "trade_off",
        *,
        method: str | None = None,
        bits: int | None = None,
        layer: int | str | None = None,
        lam: float | None = None,
        gamma: float | None = None,
        draw: int | None = None,
        quantity: str | None = None,
        theme: Theme = "light",
    ) -> go.Figure:
        """Return a figure of the Lab at one λ and γ, for a line and a layer, from the same data as the page.

        Args:
            name: “trade_off”, or a name in the Lab's view: surfaces, deciles, plane, map, gap, inspector …
            method: Name of the line; without it and ``bits`` the Lab's first line.
            bits: Bit width of the line.
            layer: Position or name of a layer; None for all.
            lam: A value of the line's λ; None for the Lab's first.
            gamma: A value of the line's γ; None for the Lab's first.
            draw: Seed of a draw; None for the mean.
            quantity: Quantity of the map of layers, as in the Lab.
            theme: Colours.

        Raises:
            NotFound: For a name or value that the study does not have, with the existing ones.
        """
        names = [part.name for part in self.layers]
        position = names.index(layer) if isinstance(layer, str) and layer in names else layer
        view = lab_view(self, method=method, bits=bits, layer=position, draw=draw, quantity=quantity)
        figures = view["figures"]
        drawing = figures.get(ALIASES.get(name, name))
        if drawing is None:
            have = ", ".join(
                ["trade_off", *(key for key, part in figures.items() if part is not None and key != "hero")]
            )
            raise NotFound(f"this line has no figure “{name}”", f"study {self.id}", f"It has {have}.")
        study = self if draw is None else one_draw(self, draw)
        facts = line_facts(study, method=view["line"]["name"], bits=view["line"]["bits"], layer=view["layer"])
        line = facts.line
        place = view["start"]["lambda"] if lam is None else lam_index(line, lam)
        if place is None:
            have = ", ".join(f"{value:g}" for value in line.lams)
            raise NotFound(f"{line.name} has no λ = {lam:g}", f"study {self.id}", f"It has {have}.")
        if gamma is not None and gamma not in line.gammas:
            have = ", ".join(str(value) for value in line.gammas)
            raise NotFound(f"{line.name} has no γ = {gamma:g}", f"study {self.id}", f"It has {have}.")
        row = view["start"]["gamma"] if gamma is None else line.gammas.index(gamma)
        arrays = {key: {**part, "layer": view["surface_layer"]} for key, part in view["arrays"].items()}
        colours = colours_of(Settings().assets_dir / "css" / "base.css", theme)
        return plotly_figure(drawing, facts, arrays, row, place, colours)


def compare(runs: Iterable[StoredStudy | Path | str]) -> pd.DataFrame:
    """Return the chosen points of several runs or studies as one table: means over draws, one row for each line.

    A line with a curve and no chosen point has a row for every λ and γ. Columns: study, model, method, bits, gamma,
    lambda, draws, the means of ``frame("points")``, and perplexity_float.

    Args:
        runs: Studies, their folders or their names.

    Raises:
        Refused: Without any run.
    """
    import pandas as pd

    parts = []
    for run in runs:
        study = run if isinstance(run, StoredStudy) else StudyWithFigures.open(run)
        points = frame(study, "points")
        keys = ["method", "bits", "gamma", "lambda"]
        means = points.drop(columns="draw").groupby(keys, dropna=False, sort=False).mean().reset_index()
        means.insert(4, "draws", points.groupby(keys, dropna=False, sort=False)["draw"].nunique().to_numpy())
        chosen = [row for _, row in means.iterrows() if _is_chosen(study, row)]
        part = pd.DataFrame(chosen)
        part.insert(0, "study", study.id)
        part.insert(1, "model", study.model.name)
        part["perplexity_float"] = study.model.perplexity
        parts.append(part)
    if not parts:
        raise Refused("there is nothing to compare", "compare", "Give studies, their folders or their names.")
    return pd.concat(parts, ignore_index=True)


def _is_chosen(study: StoredStudy, row: pd.Series) -> bool:
    line = study.line(str(row["method"]), int(row["bits"]))
    if line.chosen is None or len(line.lams) == len(line.gammas) == 1:
        return True
    gamma, lam = line.chosen
    return lam_index(line, float(row["lambda"])) == lam and (
        line.gammas[gamma] is None or float(row["gamma"]) == line.gammas[gamma]
    )
