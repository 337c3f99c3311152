"""Values in plain form, for JSON and for people."""

import json

import numpy as np
import pytest

from sarqc.plain import gib, plain


def test_numbers_that_json_lacks_become_null():
    value = {"a": [float("nan"), 1.0, (float("inf"),)], "b": {"c": 2}, 3: np.array([[1.5, np.nan]])}
    expected = {"a": [None, 1.0, [None]], "b": {"c": 2}, "3": [[1.5, None]]}
    assert plain(value) == expected
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected


def test_numbers_of_numpy_become_those_of_python_and_what_has_no_plain_form_is_an_error():
    values = plain([np.float32(0.5), np.float64("nan"), np.int64(3), np.bool_(True)])
    assert values == [0.5, None, 3, True]
    assert [type(value) for value in values] == [float, type(None), int, bool]
    with pytest.raises(TypeError, match="object has no plain form"):
        plain({"a": [object()]})


def test_sizes_have_three_digits():
    assert (gib(2**30), gib(0.01 * 2**30), gib(12.345 * 2**30)) == ("1 GiB", "0.01 GiB", "12.3 GiB")
