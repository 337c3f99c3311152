"""Facts → what a page draws: figures, the sentence of every point, the table, and how it was measured. Pure.

``lab_view``, ``compare_view``, ``tuning_view``, ``ladder_view`` and ``rounding_view`` are what the REST interface
returns; the browser only indexes into them. A figure is a plain dict for plotly with bindings for what changes with γ
and λ: see ``drawing``.
"""

from sarqc.figures.compare import compare_view
from sarqc.figures.ladder import ladder_view
from sarqc.figures.rounding import rounding_view
from sarqc.figures.tables import figure_table
from sarqc.figures.tuning_figures import tuning_view
from sarqc.figures.view import lab_view

__all__ = ["compare_view", "figure_table", "lab_view", "ladder_view", "rounding_view", "tuning_view"]
