"""What people read when a manifest is refused: complete, bounded, and without a value of the manifest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.deploy.manifest_support import config_map, problems, refusal, thing

from vidra.deploy.manifest import ManifestError, ManifestObject, Problem, read_manifest
from vidra.deploy.problems import MAX_PROBLEMS


def text_of(found: tuple[Problem, ...]) -> str:
    return str(ManifestError(found))


def test_a_problem_names_document_line_kind_namespace_and_name() -> None:
    assert str(Problem(3, 41, "Deployment app/web", "is odd")) == "document 3 (line 41), Deployment app/web: is odd"
    assert str(Problem(3, 41, None, "is odd")) == "document 3 (line 41): is odd"


def test_problems_are_told_in_the_texts_order() -> None:
    found = problems(f"{thing('a: !x y')}\n---\nwords\n---\n{config_map('a', 'data: {a: 1, b: 2}')}\n---\na: [")
    assert [(problem.document, problem.line) for problem in found] == [(1, 4), (2, 6), (3, 11), (3, 11), (4, 13)]


def test_ten_problems_are_shown_and_the_rest_counted() -> None:
    assert text_of(problems("---\n".join(["words\n"] * 10))).count("document ") == 10
    assert text_of(problems("---\n".join(["words\n"] * 13))).endswith("; and 3 more problems")
    assert text_of(problems("---\n".join(["words\n"] * 500))).endswith("; and at least 90 more problems")


@pytest.mark.parametrize(
    "text",
    [
        "---\n".join(["a: [\n"] * 1000),
        "{}\n" * 1000,
        "apiVersion: v1\nkind: List\nitems:\n" + "- {}\n" * 1000,
        config_map("a", "data: {" + "".join(f"k{number}: 1, " for number in range(1000)) + "}"),
    ],
)
def test_reading_stops_after_so_many_problems(text: str) -> None:
    assert len(problems(text)) == MAX_PROBLEMS


def test_a_long_key_or_name_makes_no_long_message() -> None:
    long = "k" * 5000
    for text in (
        config_map(long, f'data: {{? "{long}" : 1}}'),
        thing(f'spec: {{? "{long}" : 1, ? "{long}" : 2}}'),
        thing(f"spec: !{long} x"),
        thing(f"spec: *{long}"),
        config_map("a/" + long),
    ):
        assert len(refusal(text)) < 500


SECRET = "hunter2"


@pytest.mark.parametrize(
    "rest",
    [
        f"data: {{a: {SECRET}}}",
        f"stringData: {{a: [{SECRET}]}}",
        f"stringData: {SECRET}",
        f"stringData: {{a: b}}\nstringData: {{a: {SECRET}}}",
        f"stringData: {{a: !x {SECRET}}}",
        f"stringData: {{a: !!int {SECRET}}}",
        f"stringData: {{a: !!binary {SECRET}}}",
        f"stringData: {{a: '{SECRET}\a'}}",
        f"stringData: {{a: '{SECRET}",
        f"stringData: {{a: @{SECRET}}}",
        f"stringData:\n\ta: {SECRET}",
        f"stringData: {{a: {SECRET}: x: y}}",
        f"stringData:\n  {SECRET}\n  a: b\n",
    ],
)
def test_no_value_of_a_secret_is_in_a_message(rest: str) -> None:
    said = text_of(problems(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\n{rest}\n"))
    assert "Secret a" in said
    assert SECRET not in said


def test_no_value_of_a_secret_in_json_is_in_a_message() -> None:
    for data in (f'"{SECRET}', f'"{SECRET}"', f'["{SECRET}"]', f'"{SECRET}" "x"', f'"{SECRET}\\x"'):
        text = f'{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "a"}}, "data": {{"a": {data}}}}}'
        assert SECRET not in text_of(problems(text))


def outcome(text: str) -> tuple[tuple[ManifestObject, ...], ManifestError]:
    try:
        return read_manifest(text), ManifestError(())
    except ManifestError as error:
        return (), error


@given(text=st.text(alphabet="ab1 \t\n\r:-?[]{},#&*!|>'\"%@`~<=.\u2028\x85\a\ud800", max_size=60))
def test_any_text_gives_objects_or_a_manifest_error(text: str) -> None:
    for written in (text, thing(text), config_map("a", f"data:\n  a: {text}"), f'{{"kind": {text}}}', f"{{}}{text}"):
        found, error = outcome(written)
        assert all(item.name and item.kind and item.digest for item in found)
        lines = written.count("\n") + sum(written.count(sign) for sign in "\r\x85\u2028") + 1
        assert all(1 <= problem.line <= lines and problem.document >= 1 for problem in error.problems)
        assert len(str(error)) < 10_000
