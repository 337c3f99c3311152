"""What the image promises, read from its recipe: building it takes longer than tests may."""

from __future__ import annotations

from pathlib import Path

LINES = (Path(__file__).resolve().parent.parent / "Dockerfile").read_text(encoding="utf-8").splitlines()
STATE = "/home/user/state"


def place(start: str) -> int:
    return next(number for number, line in enumerate(LINES) if line.startswith(start))


def test_the_volume_belongs_to_the_user_who_writes_it() -> None:
    """Docker makes a volume's folder as root, unless the image has it already."""
    assert place("USER user") < place(f"RUN mkdir -p {STATE}") < place(f"VOLUME {STATE}")


def test_models_of_the_hub_are_in_the_volume_and_the_init_and_health_check_are_there() -> None:
    assert any(line.strip().startswith(f"HF_HOME={STATE}/") for line in LINES)
    assert LINES[place("ENTRYPOINT")] == 'ENTRYPOINT ["tini", "--"]'
    assert "/healthz" in LINES[place("HEALTHCHECK") + 1]
