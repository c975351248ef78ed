from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.kube import codec

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=JSON)
def test_what_was_written_is_read_again(value: Any) -> None:
    try:
        data = codec.dumps(value)
    except UnicodeEncodeError:  # half a surrogate pair is no text
        return
    assert codec.loads(data) == value
    assert b"\n" not in data


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_know_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        codec.dumps({"x": value})


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", b"<html>", b"\xff\xfe", b"[" * 200_000])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each has a text of its own
        codec.loads(data)
