"""How a text is taken apart into documents, and how they are numbered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.deploy.manifest_support import config_map, names, only, problems, refusal

from vidra.deploy.manifest import read_manifest

A, B = config_map("a"), config_map("b")
JSON_A, JSON_B = (json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}) for name in "ab")


@pytest.mark.case("P01")
def test_blank_documents_and_those_of_comments_are_none() -> None:
    text = f"---\n{A}---\n# only a comment\n---\n\n---\n{B}---\n"
    assert [(item.name, item.document, item.line) for item in read_manifest(text)] == [("a", 1, 2), ("b", 4, 10)]


@pytest.mark.parametrize(
    "text", ["", "\n", "# a\n", "---\n", "---\n---\n", "--- # a\n", "~\n", "null\n---\n~", "\ufeff"]
)
def test_a_text_without_documents_gives_no_objects(text: str) -> None:
    assert read_manifest(text) == ()


@pytest.mark.case("P02")
def test_markers_inside_of_texts_are_text() -> None:
    found = only(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    example: |\n"
        "      before\n      ---\n      kind: Mapping\n"
        "data:\n  cert: |\n    -----BEGIN X-----\n    QUJD\n    -----END X-----\n"
    ).body
    assert found["metadata"]["annotations"] == {"example": "before\n---\nkind: Mapping\n"}
    assert found["data"] == {"cert": "-----BEGIN X-----\nQUJD\n-----END X-----\n"}


@pytest.mark.case("P04")
@pytest.mark.parametrize("marker", ["--- # second", "---", "---   ", "---\t", "---\r", "...\n---", "... # end"])
def test_every_form_of_marker_separates(marker: str) -> None:
    assert names(f"{A}{marker}\n{B}") == ["a", "b"]


@pytest.mark.parametrize("word", ["---a", "----", "...."])
def test_a_word_that_begins_like_a_marker_is_none(word: str) -> None:
    assert only(f"{A}data:\n  {word}: x\n").body["data"] == {word: "x"}
    assert len(problems(f"{A}{word}\n{B}")) == 1


def test_a_document_may_begin_on_its_marker_line() -> None:
    assert names(f"--- {JSON_A}\n--- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b}}}}\n") == ["a", "b"]


def test_what_follows_an_end_marker_is_never_lost() -> None:
    assert [(item.name, item.document) for item in read_manifest(f"{A}...\n{B}...\n# end\n")] == [("a", 1), ("b", 2)]


@pytest.mark.case("P06")
@pytest.mark.parametrize(
    "text", [f"\ufeff{A}---\n{B}", f"{A}---\n\ufeff{B}", f"\ufeff---\n{A}---\n{B}", f"\ufeff{JSON_A}{JSON_B}"]
)
def test_byte_order_marks_are_as_if_absent(text: str) -> None:
    assert names(text) == ["a", "b"]


@pytest.mark.case("P24")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        (JSON_A, 1),
        (f"{JSON_A}\n---\n{B}", 2),
        (f"{A}---\n{JSON_B}", 2),
        (f"{JSON_A}\n{JSON_B}\n", 2),
        (f"{JSON_A}{JSON_B}", 2),
        (f"# first\n{JSON_A} # second\n{JSON_B}", 2),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", 1),
    ],
)
def test_json_is_read_alone_in_a_row_and_among_yaml(text: str, count: int) -> None:
    assert names(text) == ["a", "b"][:count]


def test_json_escapes_are_read_as_json_has_them() -> None:
    data = '"data": {"a": "\\ud83d\\ude00\\/\\u0007"}'
    assert only(f"{JSON_A[:-1]}, {data}}}").body["data"] == {"a": "😀/\a"}


def test_objects_of_json_in_a_row_are_documents_with_numbers_of_their_own() -> None:
    assert [(item.document, item.line) for item in read_manifest(f"---\n\n{JSON_A}\n\n{JSON_B}\n---\n{A}")] == [
        (1, 3),
        (2, 5),
        (3, 7),
    ]
    assert refusal(f"{JSON_A}\n{JSON_B}\n{{\n'a: 1\n---\n{A}").startswith("document 3 (line 4): isn't JSON")


def test_yaml_directives_belong_to_the_document_that_follows() -> None:
    assert [(item.name, item.document) for item in read_manifest(f"%YAML 1.1\n---\n{A}...\n%YAML 1.1\n---\n{B}")] == [
        ("a", 1),
        ("b", 2),
    ]


def test_line_ends_of_windows_are_line_ends() -> None:
    text = f"{A}data:\n  a: |\n    x\n    y\n---\n{B}".replace("\n", "\r\n")
    first, second = read_manifest(text)
    assert first.body["data"] == {"a": "x\ny\n"}
    assert (second.document, second.line) == (2, 9)


def test_a_broken_document_hides_no_other_faults_and_keeps_back_the_good_ones() -> None:
    found = problems(f"{A}---\na: [\n---\n{B}---\nwords\n")
    assert [(problem.document, problem.line) for problem in found] == [(2, 5), (4, 11)]


@pytest.mark.parametrize(
    "text",
    ["<!DOCTYPE html>\n<html></html>", "\n  <html>", "<?xml version='1.0'?>", "\ufeff<a/>"],
)
def test_a_page_instead_of_a_manifest_is_called_by_its_name(text: str) -> None:
    assert refusal(text) == "document 1 (line 1): isn't a manifest but HTML or XML, as of a proxy or a login page"


@pytest.mark.parametrize("cut", range(1, len(JSON_A)))
def test_json_that_was_cut_short_is_never_an_object(cut: int) -> None:
    problems(JSON_A[:cut])


@given(
    parts=st.lists(st.sampled_from([A, "", "# none\n", "\n", JSON_A + "\n"]), max_size=12),
    marker=st.sampled_from(["---\n", "--- # next\n", "---  \n"]),
)
def test_a_documents_number_counts_the_markers_before_it(parts: list[str], marker: str) -> None:
    text = "".join(marker + part for part in parts)
    expected = [number for number, part in enumerate(parts, start=1) if "ConfigMap" in part]
    found = read_manifest(text)
    assert [item.document for item in found] == expected
    lines = text.splitlines()
    assert all("apiVersion" in lines[item.line - 1] for item in found)


@given(parts=st.lists(st.sampled_from([A, "a: [\n", "\tx\n", "words\n", JSON_A + "\n"]), max_size=8))
def test_each_broken_document_is_named_by_its_number(parts: list[str]) -> None:
    broken = [number for number, part in enumerate(parts, start=1) if "ConfigMap" not in part]
    text = "---\n".join(parts)
    if broken:
        assert [problem.document for problem in problems(text)] == broken
    else:
        assert [item.document for item in read_manifest(text)] == list(range(1, len(parts) + 1))
