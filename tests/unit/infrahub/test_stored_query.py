"""Only a query that declares the variable may run."""

import pytest

from vidra.infrahub.stored_query import objection

VARIABLE = "artifactname"


@pytest.mark.parametrize(
    "text",
    [
        "query ArtifactIDs($artifactname: [String]) { CoreArtifact(name__values: $artifactname) { count } }",
        "query($artifactname:String!){a}",
        'query ($n: Int = 3, $artifactname: String = "}{(") @live(if: true) { a(x: $n) }',
        "query Q($o: In = {a: {b: 1}, c: [2]}, $ artifactname : String) { a }",
        "# mutation M { a }\nquery Q($artifactname: String) { a }",
        "fragment F on CoreArtifact { id }\nquery Q($artifactname: String) { ...F }",
        "query Q($artifactname: String) { ...F } fragment F on CoreArtifact { mutation }",
        '"""a \\""" block { """ query Q($artifactname: String) { a }',
        "query mutation($artifactname: String) { a }",
        "\ufeffquery Q($artifactname: String) { a }",
    ],
)
def test_a_query_with_the_variable_may_run(text: str) -> None:
    assert objection(text, VARIABLE) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mutation NewBranch($artifactname: String!) { BranchCreate { ok } }", "mutation"),
        ("  \n# query\nmutation($artifactname: String!) { a }", "mutation"),
        ("subscription S($artifactname: String) { a }", "subscription"),
        ("query A($artifactname: String) { a } mutation B { b }", "mutation"),
        ("query A($artifactname: String) { a } query B { b }", "2 operations"),
        ("fragment F on X { id }", "0 operations"),
        ("", "0 operations"),
        ("{ CoreArtifact { edges { node { id } } } }", "has none"),
        ("query Q { a }", "has none"),
        ("query Q($artefactname: String, $b: Int) { a }", "$artefactname, $b"),
        ("query Q($artifactnames: String) { a }", "$artifactnames"),
        ("query Q($x: String) { a(name: $artifactname) }", "$x"),
        ('query Q($x: String = "$artifactname: String") { a }', "$x"),
        ("query Q($x: String # $artifactname: String\n) { a }", "$x"),
    ],
)
def test_any_other_text_is_objected_to(text: str, why: str) -> None:
    found = objection(text, VARIABLE)
    assert found is not None
    assert why in found
