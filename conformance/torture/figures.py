"""What a torture has counted: figures that are printed as a table, and the first of each kind of complaint."""

from collections import Counter, defaultdict

KEPT = 8  # complaints of a kind that are printed


class Figures:
    """Counts by name, maxima, and complaints. A complaint means that something broke."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.slowest: defaultdict[str, float] = defaultdict(float)
        self.complaints: dict[str, list[str]] = {}

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def took(self, name: str, seconds: float) -> None:
        self.slowest[name] = max(seconds, self.slowest[name])

    def expect(self, *names: str) -> None:
        """Names of complaints that stand in the table even when there are none."""
        for name in names:
            self.complaints.setdefault(name, [])
            self.counts[name] += 0

    def complain(self, name: str, what: str) -> None:
        self.counts[name] += 1
        kept = self.complaints.setdefault(name, [])
        if len(kept) < KEPT:
            kept.append(what)

    @property
    def is_sound(self) -> bool:
        return not any(self.complaints.values())

    def table(self) -> str:
        rows = [(name, str(number)) for name, number in self.counts.items()]
        rows += [(f"{name}, s", f"{seconds:.2f}") for name, seconds in self.slowest.items()]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [f"{name:<{width}}  {value:>8}" for name, value in rows]
        for name, kept in self.complaints.items():
            lines += [f"\n{name}: {what}" for what in kept]
        return "\n".join(lines)
