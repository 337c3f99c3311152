"""Evidence: a comparison of a quantized model with a baseline, its verdict, and the words for both.

Every page, REST, tables, the command line and model cards take their comparisons from here, so that one measurement has
one verdict and one wording. A verdict needs an interval over calibration draws: the windows of a test text say how sure
a difference is for the draw that was measured, and nothing about other draws.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, cast

from sarqc.documents import EvidenceDocument, Tuning, TuningRow
from sarqc.plain import measured
from sarqc.study.gain import Gains
from sarqc.study.intervals import count_text, error_decimals, limits_text, number
from sarqc.study.paired import Difference, RatioDifference

Verdict = Literal["better", "worse", "equal", "unknown"]
Sample = Literal["draws", "draws and items", "windows", "items", "nothing"]
EQUAL = 0.01  # an interval within ± this share of the baseline's perplexity, or accuracy, shows that both are equal
NBSP = "\u00a0"
_VERDICTS: dict[Verdict, str] = {"equal": "Equal within 1\u00a0%", "unknown": "Not known yet"}


@dataclass(frozen=True)
class Evidence:
    """A model beside a baseline that was measured on the same texts.

    Attributes:
        quantity: Name of the compared quantity. A lower perplexity or KL is better, and a higher accuracy.
        change: Model less baseline, as a share of the baseline's perplexity or KL; of accuracies (0..1) the difference.
        low: Lower end of the 95 % interval of the change; NaN where it is not known.
        high: Its upper end.
        over: Sample that the interval is about.
        count: Number of calibration draws; of one draw, the number of windows or items; 0 where it is not known.
        among: Number of comparisons for which the interval holds at once, so that it allows for choosing the best.
        reference: Name of the baseline.
        text: Name of the text on which both were measured; empty where it is named beside.
        is_best: True for the best of those that are compared at once.
    """

    quantity: Literal["perplexity", "accuracy", "KL"]
    change: float
    low: float
    high: float
    over: Sample
    count: int
    among: int = 1
    reference: str = "GPTQ 1 %"
    text: str = ""
    is_best: bool = True

    @classmethod
    def of_json(cls, document: EvidenceDocument) -> Self:
        """Return the evidence of a stored document, whose words may be those of a former version."""
        known = {field.name for field in fields(cls)}
        facts: dict[str, Any] = {name: value for name, value in document.items() if name in known}
        return cls(**facts | {end: math.nan if facts[end] is None else facts[end] for end in ("low", "high")})

    @classmethod
    def of_difference(cls, difference: Difference, at: tuple[int, ...] = (), **facts: Any) -> Self:
        """Return the evidence of a paired difference over draws.

        Args:
            difference: Of perplexities a ``RatioDifference``, of accuracies the plain one.
            at: Place in its arrays.
            **facts: ``quantity``, ``reference`` and ``text``; ``over`` and ``count`` where it is not of draws alone.
        """
        point = difference.at(at)
        unit = abs(float(point.scale)) if isinstance(point, RatioDifference) else 1.0
        change, low, high = (float(part) / unit for part in (point.mean, point.low, point.high))
        known = math.isfinite(low) or math.isfinite(high)
        facts = {"over": "draws" if known else "nothing", "count": int(point.draws), "among": point.among} | facts
        return cls(change=change, low=low, high=high, **facts)

    @classmethod
    def of_log(cls, mean: float, low: float, high: float, **facts: Any) -> Self:
        """Return the evidence of a difference of logarithms, model less baseline, with the ends of its interval."""
        change, low, high = (math.expm1(value) for value in (mean, low, high))
        return cls(change=change, low=low, high=high, **facts)

    @classmethod
    def of_gain(cls, gains: Gains, at: int, among: int, **facts: Any) -> Self:
        """Return the evidence of a gain over a baseline, with an interval that holds for ``among`` candidates."""
        mean, low, high = (-float(part[at]) for part in (gains.mean, gains.high, gains.low))
        over: Sample = "draws" if math.isfinite(low) else "nothing"
        return cls.of_log(mean, low, high, over=over, count=int(gains.draws[at]), among=among, **facts)

    @classmethod
    def of_windows(cls, difference: Difference, **facts: Any) -> Self:
        """Return the evidence of a single calibration draw, over the windows of a test text.

        Args:
            difference: Of ln perplexities, or of KL as a share of the baseline's; model less baseline, over windows.
            **facts: ``quantity``, ``reference`` and ``text``.
        """
        change, low, high = (float(part) for part in (difference.mean, difference.low, difference.high))
        known = math.isfinite(low)
        facts |= {"over": "windows" if known else "nothing", "count": int(difference.draws) if known else 1}
        facts["among"] = difference.among
        if facts["quantity"] == "perplexity":
            return cls.of_log(change, low, high, **facts)
        return cls(change=change, low=low, high=high, **facts)

    @classmethod
    def of_row(cls, tuning: Tuning, row: TuningRow) -> Self:
        """Return the comparison of a measured λ with GPTQ 1 %; its interval holds for all compared λ at once."""
        assert row["better"] is not None
        among = sum(other["standing"] in ("best", "as_good", "worse") for other in tuning["rows"])
        facts: dict[str, Any] = {"quantity": "perplexity", "among": among, "count": row["draws"]}
        evidence = tuning.get("evidence")  # former versions had none
        facts["text"] = "" if evidence is None else evidence["text"]
        facts["is_best"] = row["standing"] == "best"
        low, high = row["better_low"], row["better_high"]
        if low is None or high is None:
            return cls.of_log(-row["better"], math.nan, math.nan, over="nothing", **facts | {"among": 1})
        return cls.of_log(-row["better"], -high, -low, over="draws", **facts)

    @property
    def has_interval(self) -> bool:
        """True where an interval is known, of draws or within one."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def verdict(self) -> Verdict:
        """The verdict: better or worse if the interval over draws excludes 0, equal if it lies within ± 1 %."""
        if not self.over.startswith("draws") or not self.has_interval:
            return "unknown"
        if self.high < 0 or self.low > 0:
            return "better" if (self.high < 0) == (self.quantity != "accuracy") else "worse"
        return "equal" if max(-self.low, self.high) <= EQUAL else "unknown"

    @property
    def size(self) -> str:
        """The size and direction of the change: “3.2 % lower”, “0.4 points higher”."""
        if self.change == 0:
            return "the same"
        unit = " points" if self.quantity == "accuracy" else f"{NBSP}%"
        return f"{number(100 * abs(self.change), self._decimals)}{unit} {'lower' if self.change < 0 else 'higher'}"

    @property
    def interval(self) -> str:
        """The interval in the direction of the size: “2.4 to 4.0 %”; empty where it is not known."""
        if not self.has_interval:
            return ""
        ends = (-self.high, -self.low) if self.change < 0 else (self.low, self.high)
        words = limits_text(100 * ends[0], 100 * ends[1], self._decimals)
        return words if self.quantity == "accuracy" else f"{words}{NBSP}%"

    @property
    def sample(self) -> str:
        """The sample that the interval is about: “five draws”, “69 windows of one draw”, “one draw”."""
        counted = f"{count_text(self.count)} " if self.count else ""
        if self.over in ("windows", "items"):
            return f"{counted}{self.over} of one draw"
        if not self.count:
            return "no draw in common"
        noun = "draws" if self.over == "nothing" else self.over
        return f"{counted}{noun.removesuffix('s') if self.count == 1 else noun}"

    @property
    def bounds(self) -> str:
        """The interval, its sample and the choice that it allows for: “95 %: 2.4 to 4.0 %, five draws, best of 7”."""
        if not self.has_interval:
            return f"{self.sample}, no interval"
        choice = f", {'best' if self.is_best else 'one'} of {self.among}" if self.among > 1 else ""
        return f"95{NBSP}%: {self.interval}, {self.sample}{choice}"

    @property
    def span(self) -> str:
        """Size and interval beside a drawing that names all else: “3.2 % lower (2.4 to 4.0 %)”."""
        return f"{self.size} ({self.interval})" if self.has_interval else self.size

    @property
    def beside(self) -> str:
        """The comparison without its size: “ perplexity than GPTQ 1 % on test.txt (95 %: 2.4 to 4.0 %, five draws)”."""
        return f" {self.quantity}{self.than}"

    @property
    def lead(self) -> str:
        """The verdict in words, where the size alone does not say it: “Not known yet”, “Equal within 1 %”."""
        return _VERDICTS.get(self.verdict, "")

    @property
    def than(self) -> str:
        """The comparison without its size and quantity, for a sentence that has named it."""
        on = f" on {self.text}" if self.text else ""
        return f" {'as' if self.change == 0 else 'than'} {self.reference}{on} ({self.bounds})"

    @property
    def clause(self) -> str:
        """The comparison within a sentence that has named its quantity: “equal within 1 %: 0.2 % lower than …”."""
        lead = f"{self.lead[0].lower()}{self.lead[1:]}: " if self.lead else ""
        return f"{lead}{self.size}{self.than}"

    @property
    def words(self) -> str:
        """The whole comparison as a sentence without its full stop, the verdict first where the size has none."""
        sentence = f"{self.size}{self.beside}"
        return f"{self.lead}: {sentence}" if self.lead else f"{sentence[0].upper()}{sentence[1:]}"

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the cells of a table: the change under a name, and the ends of its interval."""
        return {name: self.change, f"{name}_low": measured(self.low), f"{name}_high": measured(self.high)}

    def to_json(self) -> EvidenceDocument:
        """Return it with its verdict and words, as REST, studies and summaries have it."""
        words = ("verdict", "lead", "size", "bounds")
        document: Any = vars(self) | {name: getattr(self, name) for name in words}
        document |= {"low": measured(self.low), "high": measured(self.high), "words": f"{self.words}."}
        return cast(EvidenceDocument, {name: document[name] for name in EvidenceDocument.__annotations__})

    @property
    def _decimals(self) -> int:
        if not (math.isfinite(self.low) and math.isfinite(self.high)) or self.high <= self.low:
            return 1
        return min(4, max(1, error_decimals(50 * (self.high - self.low))))
