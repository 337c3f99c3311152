"""What an error says as one text."""

import pytest

from sarqc.errors import Refused


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Refused("9 bits", "grid", "Choose 2 to 8."), "grid: 9 bits. Choose 2 to 8."),
        (Refused("It did not answer.", "", "Try again."), "It did not answer. Try again."),
        (Refused("there is no model “x”", "model"), "model: there is no model “x”"),
    ],
)
def test_the_three_parts_are_sentences(error, text):
    assert str(error) == text
