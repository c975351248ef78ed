"""Hypothesis strategies for manifests as text, of all that people and templates write.

A text has ``NAME`` where its objects are to be told apart: the name of the text, and .1, .2 where it holds several.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAME = "@NAME@"

#: Unquoted words with a meaning in some YAML, or almost.
WORDS = (
    *("yes", "no", "on", "off", "true", "False", "TRUE", "NULL", "null", "Null", "~", "=", "<<", "text"),
    *(".inf", "-.INF", ".nan", "0x", "0b1", "0o17", "0O7", "1_0", "12:30", "2024-01-01", "2024-01-01T10:00:00Z"),
    *("1e3", "-", "+", ".", "..", "...", "---", "0.0", "-0", "00", "1.", ".1", "1e", "1e+", "+.5", "0x_f", "0b2"),
    *("09", "0o8", "1__0", "-_1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0644"),
)

_words = st.sampled_from(WORDS)
_number_like = st.text(alphabet="0123456789+-._eExXoObBfF", min_size=1, max_size=8)
_any_text = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
_yaml_signs = st.text(alphabet="abcg \t\n:-?[]{},#&*!|>'\"%@`~<=", max_size=12)
_keys = st.text(alphabet="abcdefgh", min_size=2, max_size=4)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)


def _is_y_or_n(text: str) -> bool:
    return text.strip() in set("yYnN")  # read otherwise on purpose


@st.composite
def _trees(draw: st.DrawFn) -> str:
    """A value written as YAML by a style drawn anew at each level: block or flow, and scalars as JSON has them."""

    def write(value: Any, indent: str) -> str:
        if not isinstance(value, dict | list) or not value or draw(st.booleans()):
            # JSON's escapes of characters beyond 16 bits are no YAML, the characters themselves are.
            return " " + json.dumps(value, ensure_ascii=False) + "\n"
        if isinstance(value, list):
            return "\n" + "".join(f"{indent}-{write(item, indent + '  ')}" for item in value)
        return "\n" + "".join(f"{indent}{key}:{write(item, indent + '  ')}" for key, item in value.items())

    return "spec:" + write(draw(_values), " ")


_FORMS = ("&{0} {1}", "&{0} [{1}, {1}]", "&{0} {{x: {1}, z: 2}}", "*{0} ", "{{<<: *{0} , x: 5}}")
_TAGS = ("!!str", "!!int", "!!float", "!!bool", "!!null", "!!binary", "!!timestamp", "!", "!!map")


@st.composite
def _anchored(draw: st.DrawFn) -> str:
    """Anchors of one or two names, set anew and used, as values and in merges; also unknown ones."""
    lines = ["spec:"]
    for number in range(draw(st.integers(1, 5))):
        inner = draw(st.sampled_from(("text", "7", "off", "*a ", "&b 1")))
        lines.append(f"  k{number}: " + draw(st.sampled_from(_FORMS)).format(draw(st.sampled_from("ab")), inner))
    return "\n".join(lines) + "\n"


@st.composite
def _tagged(draw: st.DrawFn) -> str:
    text = draw((_words | _number_like).filter(lambda text: not _is_y_or_n(text)))
    return f"spec:\n- {draw(st.sampled_from(_TAGS))} {text}\n"


@st.composite
def _block_scalars(draw: st.DrawFn) -> str:
    head = draw(st.sampled_from("|>")) + draw(st.sampled_from(("", "-", "+", "2", "1-")))
    lines = draw(st.lists(st.text(alphabet="ab :#-\t", max_size=6), max_size=5))
    end = draw(st.sampled_from(("", "  b: 1\n")))
    return f"spec:\n  a: {head}\n" + "".join(f"    {line}\n" for line in lines) + end


_scalars = (_words | _number_like | _yaml_signs | _any_text).filter(lambda text: not _is_y_or_n(text))
_specs = (
    _scalars.map(lambda text: f"spec:\n- {text}\n")
    | _yaml_signs.map(lambda text: f"spec:\n  {text}\n")
    | _trees()
    | _anchored()
    | _tagged()
    | _block_scalars()
)

#: One object whose spec is anything.
objects = _specs.map(lambda spec: f"apiVersion: example.test/v1\nkind: Thing\nmetadata: {{name: {NAME}}}\n{spec}")


@st.composite
def streams(draw: st.DrawFn) -> str:
    """Several documents, some of them empty, between markers of all kinds."""
    text = draw(st.sampled_from(("", "---\n", "# first\n", "\n", "--- # first\n", "\ufeff")))
    for number in range(1, draw(st.integers(1, 5)) + 1):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{NAME}.{number}"}}
        yaml = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {NAME}.{number}}}\n"
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [body]})
        parts = (yaml, yaml, yaml + "data:\n  a: |\n    ---\n    b\n", "# nothing\n", "\n", "", listed + "\n")
        text += draw(st.sampled_from((*parts, json.dumps(body) + "\n", json.dumps(body, indent=1) + "\n")))
        text += draw(st.sampled_from(("---\n", "---\n", "---  \n", "--- # next\n", "---\n---\n", "---\r\n")))
    return text
