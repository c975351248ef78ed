"""What an unquoted YAML word means, by Kubernetes' rules.

The rules are those of the Go decoder behind kubectl: octal as 0644 and 0o644, 1e3 a number, dates and 12:30 text.
They differ in two places, on purpose (docs/manifests.md): ``y`` and ``n`` are text, and a number the API server
could not keep is an error instead of other digits. Whole floats are ints, as they are after Go's way through JSON.
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64decode
from decimal import Decimal
from typing import Any

#: The API server reads whole numbers into 64 signed bits and everything beyond into a float, which loses digits.
MIN_INT, MAX_INT = -(2**63), 2**63 - 1
_MAX_UINT = 2**64 - 1

_WORDS: dict[str, bool | None] = {"": None, "~": None}
for _word, _meaning in (("true", True), ("yes", True), ("on", True), ("false", False), ("no", False), ("off", False)):
    for _spelling in (_word, _word.title(), _word.upper()):
        _WORDS[_spelling] = _meaning
_WORDS |= {"null": None, "Null": None, "NULL": None}

_MISSING = object()
_NOT_FINITE = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
) | {".nan", ".NaN", ".NAN"}  # fmt: skip
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)")
_PREFIXED = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_STRAY_UNDERSCORE = re.compile(r"(?<![0-9])_|_(?![0-9])")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")

_TAG = "tag:yaml.org,2002:"
MERGE_TAG = _TAG + "merge"
COLLECTION_TAGS: dict[type, str] = {dict: _TAG + "map", list: _TAG + "seq"}


class ScalarError(ValueError):
    """A scalar that can't be kept; the text says why and holds no value."""


def plain(text: str) -> Any:
    """The value of an unquoted scalar: None, bool, int, float or str. Raises :class:`ScalarError`."""
    word = _WORDS.get(text, _MISSING)
    if word is not _MISSING:
        return word
    if text[0] not in "0123456789+-.":
        return text
    if text in _NOT_FINITE:
        raise ScalarError("infinity and not-a-number can't be sent to Kubernetes (quote it if it is text)")
    if text[0] == "." and _STRAY_UNDERSCORE.search(text):  # Go is lenient behind a digit or a sign only
        return text
    return _number(text.replace("_", ""), text)


def whole(number: int) -> int:
    """``number``, when the API server can keep it. Raises :class:`ScalarError`."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise ScalarError("a whole number beyond 64 bits would lose digits in Kubernetes (quote it if it is text)")


def shortest(number: float) -> int | float:
    """A finite float as Go's JSON makes it: whole numbers lose the point, and are ints where 64 bits hold them."""
    if number.is_integer() and abs(number) < 2**63:
        return int(Decimal(repr(number)))  # repr: the shortest digits, as Go writes them
    return number


#: Without its name: a password that begins with ! is read as a tag.
UNKNOWN_TAG = "a tag (!) means nothing in Kubernetes; quote it if it is text"


def tagged(tag: str, text: str) -> Any:
    """The value of a scalar with an explicit tag. Raises :class:`ScalarError`."""
    short = tag.removeprefix(_TAG)
    if short in ("!", "str") or (short == "timestamp" and _TIMESTAMP.fullmatch(text)):
        return text
    if short == "binary":
        return _binary(text)
    expected = _TYPES.get(short)
    if expected is None and short != "timestamp":
        raise ScalarError(UNKNOWN_TAG)
    value = plain(text)
    fits = expected is not None and isinstance(value, expected) and (short == "bool" or not isinstance(value, bool))
    if not fits or (short == "int" and not _is_whole(text)):
        raise ScalarError(f"the value is no !!{short}, as its tag says")
    return value


_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}


def _is_whole(text: str) -> bool:
    """Whether a number is written without point and exponent; 089 is a float that leaves them out."""
    digits = text.replace("_", "")
    return any(form.fullmatch(digits) for form in (_DECIMAL, _OCTAL, _PREFIXED))


def _number(digits: str, text: str) -> Any:
    if _DECIMAL.fullmatch(digits):
        return whole(int(digits)) if len(digits) < 40 else whole(MAX_INT + 1)
    if match := _OCTAL.fullmatch(digits):
        return whole(int(match[1] + match[2], 8))
    if match := _PREFIXED.fullmatch(digits):
        number = int(match[1] + (match[2] or match[3]), 16 if match[2] else 2)
        # Too long to be a number at all, so it is text for Go as well: an address, a hash.
        return whole(number) if MIN_INT <= number <= _MAX_UINT else text
    if _FLOAT.fullmatch(digits):
        number_or_text = _float(digits)
        return text if isinstance(number_or_text, str) else number_or_text
    return text


def _float(digits: str) -> int | float | str:
    number = float(digits)
    return shortest(number) if math.isfinite(number) else digits


def _binary(text: str) -> str:
    try:
        return b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, ValueError):  # UnicodeDecodeError is a ValueError
        raise ScalarError("!!binary must be base64 of UTF-8 text") from None
