"""The stamp of a run: the inputs of its codes and hashes of the codes, so that anyone can make them again.

A study has it in its ``study.json``, an exported model in a file beside its own; the digest in both is the same. It is
not a signature: anyone who changes a model can write another stamp. The part that can't be forged is the solving
(``sarqc.extras.verify.checks``): codes follow from weights, tokens and recipe.

Hashes of tensors are the first 32 hex digits of the SHA-256 of their bytes, row by row and little-endian: codes (O, I)
and zero points (O, G) as uint8, counted from the lowest level as files have them; scales, biases and weights in the
dtype of the checkpoint. Axes: O out_features, I in_features, G groups of a row.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sarqc.errors import NotFound, Refused
from sarqc.files.names import read_object
from sarqc.plain import plain

FILE = "sarqc_stamp.json"  # beside the files of an exported model
VERSION = 1
SHOWN_DIGITS = 12  # of a digest, where people read it
_BESIDE = ("digest", "made_with", "feeding")  # fields outside the digest

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class LayerHashes(NamedTuple):
    """Hashes of a linear's quantized tensors."""

    codes: Hash
    scales: Hash
    offsets: Hash  # zero points, on the affine grid biases
    weight: Hash  # that the quantized model has, in the dtype of the checkpoint


class StudyPart(BaseModel):
    """A part of a document that may come from anybody."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StampedText(StudyPart):
    """Token sequences of the calibration."""

    name: str  # of the text as protocols say it; of a file without its folder
    part: str  # of the text, see ``corpora.Text``; empty: all of it
    tokens: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # SHA-256 of the ids (samples, length), int64


class StampedWeights(StudyPart):
    """Tensors of the float checkpoint, as they are stored: XXH3 over names, dtypes, shapes and bits."""

    outside: Hash  # of the blocks
    blocks: tuple[Hash, ...]


class Computing(StudyPart):
    """Conditions beside the inputs that affect the last bits of a result."""

    torch: str
    device: str  # its kind
    dtype: str
    threads: int | None  # where a method learns through whole blocks on a processor; no other's codes depend on it


class Stamp(StudyPart):
    """Content of a stamp; ``digest`` covers everything but itself and what no code depends on."""

    version: Literal[1] = 1
    digest: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    recipe: dict[str, Any]  # without what only measures, and of paths the last part
    lam: float | None  # that “auto” chose for the whole model
    layer_format: int
    text: StampedText
    weights: StampedWeights
    computing: Computing
    opened: Hash | None = None  # fingerprint of the checkpoint of others whose codes were taken or repaired
    layers: dict[str, LayerHashes]  # by name, in their order
    folded: dict[str, Hash]  # other tensors that took up scales or were tuned, by their names in the checkpoint
    made_with: dict[str, str | int] = Field(default_factory=dict)  # versions, processor, threads
    feeding: dict[str, str] = Field(default_factory=dict)  # words on the model's input, by flag; see ``RunProtocol``

    def own_digest(self) -> str:
        """Return the SHA-256 of the stamp as JSON: names sorted, no blanks, ASCII."""
        fields = {name: value for name, value in self.to_json().items() if name not in _BESIDE}
        return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def sealed(self) -> Self:
        """Return the same stamp with its digest."""
        return self.model_copy(update={"digest": self.own_digest()})

    def to_json(self) -> dict[str, Any]:
        document = plain(self.model_dump(mode="json", exclude=None if self.feeding else {"feeding"}))
        assert isinstance(document, dict)
        return document

    def to_text(self) -> str:
        """Return the text of the file beside an exported model."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the stamp beside an exported model.

        Raises:
            NotFound: If there is none.
            Refused: If it can't be read.
        """
        if not (folder / FILE).is_file():
            raise NotFound("no stamp beside the model", str(folder), f"Give a folder with a {FILE}.")
        document = read_object(folder / FILE, str(folder), remedy="Export the model again.")
        if type(version := document.get("version")) is int and version > VERSION:
            raise Refused(f"the stamp has version {version}, this sarqc reads {VERSION}", str(folder), "Update sarqc.")
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise Refused(f"{FILE} {first_wrong(error)}", str(folder), "Export the model again.") from None


def first_wrong(error: ValidationError) -> str:
    """Return “is wrong at layers.0.name: …”, of the first place of a document that is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:100]
    return f"is wrong at {place}: {first['msg'][0].lower()}{first['msg'][1:]}"


def short_digest(digest: str) -> str:
    """Return the digits of a digest that people read."""
    return digest[:SHOWN_DIGITS]
