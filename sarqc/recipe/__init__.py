"""Recipe: one flat document behind the form, the flags, the REST call and a batch; and its text forms."""

from sarqc.recipe.batch import (
    axes,
    expanded,
    spare,
)
from sarqc.recipe.effort import EFFORTS, Effort, Fitting, fitting_of
from sarqc.recipe.fields import (
    BASELINE,
    BEST_GRID,
    PAPERS_GRID,
    REFITTED_GRID,
    TUNED_LAMS,
    Begin,
    choice_words,
    field_extra,
    public_name,
    separator,
    shell_help,
)
from sarqc.recipe.former import (
    FORMER_NAMES,
    deprecations,
    recorded,
    renamed,
)
from sarqc.recipe.recipe import Recipe, read_document
from sarqc.recipe.rules import (
    LADDER_LAMBDA,
    LADDER_METHOD,
    NOT_ASKED_OF_OPENED,
    NOT_ASKED_TO_TUNE,
    OF_THE_FILE,
    OF_THE_OTHER_KIND,
    REPAIRING,
    can_be_tuned,
    fields_without_flag,
    idle_fields,
    method_title,
)

__all__ = [
    "BASELINE",
    "BEST_GRID",
    "EFFORTS",
    "FORMER_NAMES",
    "LADDER_LAMBDA",
    "LADDER_METHOD",
    "NOT_ASKED_OF_OPENED",
    "NOT_ASKED_TO_TUNE",
    "OF_THE_FILE",
    "OF_THE_OTHER_KIND",
    "PAPERS_GRID",
    "REFITTED_GRID",
    "REPAIRING",
    "TUNED_LAMS",
    "Begin",
    "Effort",
    "Fitting",
    "Recipe",
    "axes",
    "can_be_tuned",
    "choice_words",
    "deprecations",
    "expanded",
    "field_extra",
    "fields_without_flag",
    "fitting_of",
    "idle_fields",
    "method_title",
    "public_name",
    "read_document",
    "recorded",
    "renamed",
    "separator",
    "shell_help",
    "spare",
]
