"""What an unquoted word, a key, a tag, an anchor of YAML means: the table of docs/manifests.md, and around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.deploy.manifest_support import body, config_map, problems, refusal, thing

from vidra.deploy import scalars


def value(word: str) -> Any:
    return body(thing(f"spec:\n- {word}\n"))["spec"][0]


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


@pytest.mark.case("P14")
@pytest.mark.parametrize("mode", ["0644", "0o644", "0O644", "420", "0x1a4", "0b110100100"])
def test_modes_are_numbers_in_every_notation(mode: str) -> None:
    pod = body(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{volumes: [{{secret: {{defaultMode: {mode}}}}}]}}"
    )
    assert pod["spec"]["volumes"][0]["secret"]["defaultMode"] == 420


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        *((word, True) for word in ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")),
        *((word, False) for word in ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("y", "n", "Y", "N", "tRUE", "yES", "nULL", "=", "<<", "nan", "inf")),
        *((word, word) for word in ("12:30:45", "1:2", "2024-01-01", "2024-05-01T10:00:00Z", "1.2.3", "10.0.0.1/8")),
        *((word, word) for word in ("0x", "0o8", "0b2", "1e", "1e+", ".", "+", "..", "0x_f_g", "1-2", "5Gi", "100m")),
        *(("089", 89), ("08", 8), ("-09", -9), ("00", 0), ("-0", 0), ("+5", 5), ("1_000", 1000), ("-0o17", -15)),
        *(("1e3", 1000), ("1234e56", 1.234e59), ("1.0", 1), ("-0.0", 0), (".5", 0.5), ("1.", 1), ("1e400", "1e400")),
        *(("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))),
        *((word, word) for word in ("._5", ".1_", ".1_e3", ".1e_3", "_5")),
        *((".5_0", 0.5), ("-._5", -0.5), ("1_.5", 1.5), ("1e_3", 1000), ("0_x1", 1)),
        ("0xffffffffffffffffffffffff", "0xffffffffffffffffffffffff"),
    ],
)
def test_a_word_means_what_kubernetes_takes_it_for(word: str, meaning: Any) -> None:
    assert same(value(word), meaning)


@pytest.mark.parametrize("word", ["yes", "0644", "1e3", "~", "null", ".inf", "12345678901234567890", "2024-01-01", ""])
@pytest.mark.parametrize("form", ["'{}'", '"{}"', "!!str {}", "! {}", "|-\n    {}"])
def test_a_quoted_word_is_text(word: str, form: str) -> None:
    assert value(form.format(word)) == word


@pytest.mark.parametrize("word", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_what_is_no_number_of_json_is_refused(word: str) -> None:
    assert refusal(thing(f"spec: {word}")) == (
        "document 1 (line 4), Thing a: infinity and not-a-number can't be sent to Kubernetes (quote it if it is text)"
    )


@pytest.mark.parametrize(
    "word", ["9223372036854775808", "-9223372036854775809", "12345678901234567890", "0x8000000000000000", "1" * 5000]
)
def test_a_whole_number_that_would_lose_digits_is_refused_in_yaml_and_in_json(word: str) -> None:
    said = "a whole number beyond 64 bits would lose digits in Kubernetes (quote it if it is text)"
    assert refusal(thing(f"spec: {word}")) == f"document 1 (line 4), Thing a: {said}"
    if not word.startswith("0x"):
        assert refusal(f'{{"kind": "Thing",\n"spec": {word}}}') == f"document 1 (line 2), Thing: {said}"


@pytest.mark.case("P16")
def test_dates_stay_text_letter_for_letter() -> None:
    found = body(
        "apiVersion: example.test/v1\nkind: Thing\nmetadata:\n  name: a\n  creationTimestamp: 2024-05-01T10:00:00Z\n"
        "  annotations:\n    on: 2024-05-01T10:00:00Z\nspec: {start: 2024-05-01, end: 2024-05-01 10:00:00 +1}\n"
    )
    assert found["metadata"] == {"name": "a", "annotations": {"on": "2024-05-01T10:00:00Z"}}
    assert found["spec"] == {"start": "2024-05-01", "end": "2024-05-01 10:00:00 +1"}
    assert json.loads(json.dumps(found)) == found


def test_keys_are_what_is_written() -> None:
    spec = body(
        thing("spec: {on: 1, y: 2, 1.10: 3, 0x10: 4, true: 5, 1: 6, 2024-01-01: 7, !!int 010: 8, !!bool no: 9}")
    )
    assert list(spec["spec"]) == ["on", "y", "1.10", "0x10", "true", "1", "2024-01-01", "010", "no"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("{~: a}", "a key is empty (null)"),
        ("{? : a}", "a key is empty (null)"),
        ("{!!null ~: a}", "a key is empty (null)"),
        ("{{a: b}: c}", "a key must be a word, not a list or a map"),
        ("{[a]: c}", "a key must be a word, not a list or a map"),
        ("{a: &a [1], *a : c}", "a key must be text, and the alias stands for something else"),
    ],
)
def test_a_key_is_a_word(spec: str, reason: str) -> None:
    assert refusal(thing(f"spec: {spec}")) == f"document 1 (line 4), Thing a: {reason}"


@pytest.mark.case("P08")
def test_a_key_twice_in_a_container_is_an_error_with_line_key_and_object() -> None:
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: app}\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - name: web\n        env: [{name: A, value: a}]\n        env: [{name: B, value: b}]\n"
    )
    said = "document 2 (line 14), Deployment app/web: the key 'env' is there twice in one map"
    assert refusal(f"{config_map('a')}---\n{text}") == said


@pytest.mark.parametrize(
    "spec",
    ["{a: 1, a: 1}", "\n  a: 1\n  b: 2\n  a: 3\n", "{1: a, '1': b}", "{x: &k a, *k : 1, a: 2}", "{<<: {}, <<: {}}"],
)
def test_a_key_twice_is_an_error_wherever_it_is(spec: str) -> None:
    assert "there twice" in refusal(thing(f"spec: {spec}"))


def test_a_key_twice_is_an_error_in_json_too() -> None:
    text = '{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"},\n"spec": {"x": 1,\n"x": 2}}'
    assert refusal(text) == "document 1 (line 3), Thing a: the key 'x' is there twice in one map"


@pytest.mark.case("P19")
def test_anchors_and_merges_are_expanded_and_unknown_keys_are_kept() -> None:
    found = body(
        "x-common: &c {tier: web}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {<<: *c, app: a}\n"
    )
    assert found["metadata"]["labels"] == {"tier": "web", "app": "a"}
    assert found["x-common"] == {"tier": "web"}


@pytest.mark.case("P19")
def test_an_anchor_of_another_document_is_none() -> None:
    said = "document 2 (line 9), Thing a: an alias (*) has no anchor (&) before it in its document"
    assert refusal(f"{thing('spec: &a {b: c}')}\n---\n{thing('spec: *a')}") == f"{said}; quote it if it is text"


@pytest.mark.parametrize(
    ("spec", "meaning"),
    [
        ("{a: &a {x: 1, z: 1}, b: {x: 2, <<: *a}}", {"x": 2, "z": 1}),
        ("{a: &a {x: 1}, z: &z {x: 2, z: 2}, b: {<<: [*a, *z]}}", {"x": 1, "z": 2}),
        ("{a: &a 1, c: &a 2, b: *a}", 2),
        ("{a: &a [&a 1, *a], b: *a}", 1),
        ("{a: &a {c: &a [1]}, b: *a}", [1]),
        ("{a: &k key, b: {*k : 1}}", {"key": 1}),
        ("{b: {'<<': {a: 1}}}", {"<<": {"a": 1}}),
    ],
)
def test_an_alias_stands_for_the_anchor_set_last(spec: str, meaning: Any) -> None:
    assert body(thing(f"spec: {spec}"))["spec"]["b"] == meaning


def test_an_alias_is_a_copy() -> None:
    spec = body(thing("spec: {a: &a {x: [1]}, b: *a, c: {<<: *a}}"))["spec"]
    spec["a"]["x"].append(2)
    assert spec["b"] == spec["c"] == {"x": [1]}


def test_an_alias_inside_of_its_own_anchor_is_an_error() -> None:
    assert "the alias *a stands inside of what it is an alias of" in refusal(thing("spec: &a {b: *a}"))


@pytest.mark.parametrize("spec", ["{<<: text}", "{<<: [1]}", "{<<: }"])
def test_only_maps_can_be_merged(spec: str) -> None:
    assert "<< must be followed by a map or a list of maps" in refusal(thing(f"spec: {spec}"))


@pytest.mark.parametrize(
    ("tagged", "meaning"),
    [
        *(
            ("!!str 5", "5"),
            ("! yes", "yes"),
            ("!!int '5'", 5),
            ("!!int 0x10", 16),
            ("!!float 5", 5),
            ("!!float .5", 0.5),
        ),
        *(
            ("!!bool 'true'", True),
            ("!!null ''", None),
            ("!!binary aGVsbG8=", "hello"),
            ("!!map {}", {}),
            ("!!seq []", []),
        ),
        ("!!timestamp 2024-01-01", "2024-01-01"),
    ],
)
def test_a_tag_of_yaml_says_the_type(tagged: str, meaning: Any) -> None:
    assert same(value(tagged), meaning)


@pytest.mark.parametrize("tag", ["!Ref", "!!set", "!!python/object:os.system", "!<tag:example.test,2024:x>"])
@pytest.mark.parametrize("rest", ["x", "[x]", "{x: y}"])
def test_a_tag_of_other_tools_is_refused(tag: str, rest: str) -> None:
    assert "means nothing in Kubernetes" in refusal(thing(f"spec: {tag} {rest}"))


@pytest.mark.parametrize(
    "tagged", ["!!int a", "!!int 1.0", "!!int yes", "!!bool 1", "!!null a", "!!float yes", "!!timestamp 8"]
)
def test_a_tag_that_lies_is_refused(tagged: str) -> None:
    tag = tagged.split()[0]
    assert refusal(thing(f"spec: {tagged}")).endswith(f"the value is no {tag}, as its tag says")


@pytest.mark.parametrize("blob", ["/w==", "a", "a-b_"])
def test_bytes_that_are_no_text_are_refused(blob: str) -> None:
    assert refusal(thing(f"spec: !!binary {blob}")).endswith("!!binary must be base64 of UTF-8 text")


@pytest.mark.case("P21")
def test_a_tab_as_indent_is_named_with_document_and_line() -> None:
    said = refusal(f"{config_map('a')}---\n{config_map('b', 'data:' + chr(10) + chr(9) + 'a: b')}")
    assert said.startswith("document 2 (line 9), ConfigMap b: isn't YAML: ")
    assert said.endswith("; the line is indented by a tab, and YAML wants spaces")


@pytest.mark.case("P21")
@pytest.mark.parametrize("character", ["\a", "\0", "\x1b", "\x7f", "\ufffe", "\ud800"])
def test_a_control_character_is_named_with_document_and_line(character: str) -> None:
    said = refusal(f"{config_map('a')}---\n{config_map('b', f'data:{chr(10)}  a: ring{character}')}")
    assert said == f"document 2 (line 9), ConfigMap b: the character U+{ord(character):04X} may not stand in a manifest"


def test_half_a_surrogate_pair_is_no_text_in_json_either() -> None:
    assert "half of a surrogate pair" in refusal('{"kind": "\\ud800"}')
    assert "U+D800" in refusal('{"kind": "\ud800"}')


@given(text=st.text(alphabet="0123456789+-._eExXoObBfFnaNyY~", max_size=12))
def test_any_word_is_a_json_value_or_an_error(text: str) -> None:
    try:
        meaning = scalars.plain(text)
    except scalars.ScalarError:
        return
    assert json.loads(json.dumps(meaning, allow_nan=False)) == meaning
    assert not isinstance(meaning, float) or not meaning.is_integer() or abs(meaning) >= 2**63


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_every_whole_number_of_64_bits_is_exact_in_each_notation(number: int) -> None:
    sign = "-" if number < 0 else ""
    for form in (f"{number}", f"{sign}0x{abs(number):x}", f"{sign}0o{abs(number):o}", f"{sign}0b{abs(number):b}"):
        assert same(scalars.plain(form), number)


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_as_it_was_written(number: float) -> None:
    found = value(repr(number))
    assert float(found) == number
    assert isinstance(found, int) or not number.is_integer() or abs(number) >= 2**63


def test_several_faults_are_all_told() -> None:
    assert len(problems(f"{thing('spec: .inf')}\n---\n{thing('spec: !x y')}\n---\n- a")) == 3
