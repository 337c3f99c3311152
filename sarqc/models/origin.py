"""Origin of an unpacked checkpoint's weights, GGUF files that were quantized before, in a file; no torch."""

from pathlib import Path

from pydantic import Field, ValidationError

from sarqc.errors import Refused
from sarqc.files.names import read_object
from sarqc.models.architecture import Frozen, first_problem

ORIGIN = "sarqc-origin.json"
_FLOATS = ("F32", "F16", "BF16")
# Bits, and channels of a group, of ggml's types whose levels are evenly spaced.
_GRIDS = {"Q2_K": (2, 16), "Q3_K": (3, 16), "Q4_0": (4, 32), "Q4_1": (4, 32), "Q4_K": (4, 32)}


class Origin(Frozen):
    """The files that weights were unpacked from."""

    files: tuple[str, ...] = Field(max_length=1000)  # their names
    sha256: tuple[str, ...] = Field((), max_length=1000)
    types: tuple[str, ...] = Field(max_length=40)  # of the linears, by ggml's names, the commonest first

    @property
    def words(self) -> str:
        """History of the weights as a sentence; empty if they were floats."""
        types = [kind for kind in self.types if kind not in _FLOATS]
        if not types:
            return ""
        return (
            f"the weights come from a GGUF file that was quantized before ({', '.join(types)}): they are the float "
            "model here, and what was lost then is not counted"
        )

    def resembles(self, bits: int, group_size: int | None) -> bool:
        """Return True if a grid is like that of the weights' own quantization.

        The weights then fit it better than other grids.
        """
        return any(_GRIDS.get(kind) == (bits, group_size) for kind in self.types)


def read_origin(folder: Path, where: str) -> Origin | None:
    """Return the origin of a checkpoint's weights; None if it is not known.

    Raises:
        Refused: If the file is damaged.
    """
    if not (folder / ORIGIN).exists():
        return None
    document = read_object(folder / ORIGIN, where, remedy="Remove it, or unpack the model again.")
    try:
        return Origin.model_validate(document)
    except ValidationError as error:
        what = f"{ORIGIN}: {first_problem(error)}"
        raise Refused(what, where, "Remove it, or unpack the model again.") from None
