"""The stand-in's GraphQL: what it reads, what it answers, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from infrahub.clock import Clock
from infrahub.graphql_exec import Context, kinds_read, run
from infrahub.graphql_parser import Field, GraphQLSyntaxError, InlineFragment, Type, Variable, parse
from infrahub.state import State


@pytest.fixture
def state() -> State:
    state = State(Clock())
    for target in ("one", "two", "three"):
        artifact = state.add_artifact(
            "Page",
            target=state.add_node("VidraApp", target),
            definition=state.add_node("CoreArtifactDefinition", "Page_Def"),
            content_type="application/yaml",
        )
        state.render(artifact.id, f"name: {target}\n")
    state.add_query(
        "Named", "query Named($names: [String!]!, $limit: Int = 5) { CoreArtifact(name__values: $names) { count } }"
    )
    return state


def ask(state: State, text: str, **variables: Any) -> tuple[Any, list[str]]:
    context = Context(state, state.branch(None), state.clock.now())
    data, errors = run(parse(text), variables, context)
    return data, [error.message for error in errors]


def test_the_parser_keeps_aliases_arguments_fragments_and_places() -> None:
    operation = parse(
        'query Q($n: [String!]! = ["a"]) {\n'
        '  x: f(a: $n, b: {c: [1, 2.5, true, null, "t\\u00e9\\n"]}) { ... on K { id } }\n}'
    )
    assert (operation.kind, operation.name) == ("query", "Q")
    assert operation.variables[0].type == Type("String", list_of=True, required=True, inner_required=True)
    assert str(operation.variables[0].type) == "[String!]!"
    assert operation.variables[0].default == ["a"]
    field = operation.selection[0]
    assert isinstance(field, Field)
    assert (field.key, field.name, field.where) == ("x", "f", (2, 3))
    assert field.arguments == {"a": Variable("n"), "b": {"c": [1, 2.5, True, None, "té\n"]}}
    assert isinstance(field.selection[0], InlineFragment)
    assert field.selection[0].kind == "K"


@pytest.mark.parametrize(
    "text", ["", "{", "{CoreArtifact{edges", "{a(b:)}", "subscription{a}", "{a}{b}", "{a{}}", "{a ?}"]
)
def test_text_that_is_no_operation_is_a_syntax_error(text: str) -> None:
    with pytest.raises(GraphQLSyntaxError):
        parse(text)


def test_pages_tile_the_whole_and_limit_zero_is_no_limit(state: State) -> None:
    text = "query($o:Int,$l:Int){CoreArtifact(offset:$o,limit:$l){count edges{node{id}}}}"
    pages = [ask(state, text, o=offset, l=2)[0]["CoreArtifact"] for offset in (0, 2, 4)]
    assert [len(page["edges"]) for page in pages] == [2, 1, 0]
    assert {page["count"] for page in pages} == {3}
    everything = ask(state, text, o=0, l=0)[0]["CoreArtifact"]["edges"]
    assert everything == pages[0]["edges"] + pages[1]["edges"]


def test_a_null_variable_filters_nothing(state: State) -> None:
    data, errors = ask(state, "query($n:[String]){CoreArtifact(name__values:$n){count}}")
    assert (data, errors) == ({"CoreArtifact": {"count": 3}}, [])


def test_filters_by_target_definition_and_status(state: State) -> None:
    artifact = next(iter(state.artifacts.values()))
    state.set(artifact.id, status="Error")
    text = """query($t:[ID],$d:[ID]){
      a:CoreArtifact(object__ids:$t){count} b:CoreArtifact(definition__ids:$d){count}
      c:CoreArtifact(status__value:"Error"){count} d:CoreArtifact(status__values:["Ready","Error"]){count}
      e:CoreArtifact(definition__name__value:"Page_Def"){count} f:CoreArtifact(ids:$d){count}}"""
    data, errors = ask(state, text, t=[artifact.target.id], d=artifact.definition.id)
    assert errors == []
    assert {key: page["count"] for key, page in data.items()} == {"a": 1, "b": 3, "c": 1, "d": 3, "e": 3, "f": 0}


def test_a_fragment_on_the_target_kind_reads_its_attributes(state: State) -> None:
    text = """{CoreArtifact(limit:1){edges{node{object{node{
      __typename ... on VidraApp{name{value}} ... on CoreArtifactDefinition{id}}}}}}}"""
    data, _ = ask(state, text)
    assert data["CoreArtifact"]["edges"][0]["node"]["object"]["node"] == {
        "__typename": "VidraApp",
        "name": {"value": "one"},
    }


def test_a_stored_query_can_be_fetched_with_its_text_and_variables(state: State) -> None:
    text = """{CoreGraphQLQuery(name__value:"Named"){edges{node{
      name{value} query{value} variables{value} models{value} operations{value}}}}}"""
    node = ask(state, text)[0]["CoreGraphQLQuery"]["edges"][0]["node"]
    assert node["query"]["value"] == state.queries["Named"].text
    assert [(v["name"], v["type"], v["is_list"], v["required"], v["default"]) for v in node["variables"]["value"]] == [
        ("names", "String", True, True, None),
        ("limit", "Int", False, False, 5),
    ]
    assert node["operations"]["value"] == ["query"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{CoreArtifact{edges{node{nope}}}}", "Cannot query field 'nope' on type 'CoreArtifact'. Did you mean 'name'?"),
        ("{CoreArtifakt{count}}", "Cannot query field 'CoreArtifakt' on type 'Query'. Did you mean 'CoreArtifact'?"),
        ("{CoreArtifact}", "must have a selection of subfields"),
        ("{CoreArtifact{count{x}}}", "Field 'count' must not have a selection"),
        ("{CoreArtifact(name_value:1){count}}", "Unknown argument 'name_value' on field 'Query.CoreArtifact'."),
        ("{CoreArtifact(name__value:$n){count}}", "Variable '$n' is not defined."),
        (
            "query($n:String!){CoreArtifact(name__value:$n){count}}",
            "Variable '$n' of required type 'String!' was not provided.",
        ),
    ],
)
def test_what_is_wrong_with_a_query_is_said_in_the_servers_words(state: State, text: str, message: str) -> None:
    data, errors = ask(state, text)
    assert data is None
    assert message in errors[0]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("Int", "x", "Variable '$n' got invalid value 'x'; Int cannot represent non-integer value: 'x'"),
        ("String", 5, "Variable '$n' got invalid value 5; String cannot represent a non string value: 5"),
        ("String!", None, "Variable '$n' of non-null type 'String!' must not be null."),
    ],
)
def test_a_variable_of_the_wrong_type_is_named(state: State, kind: str, value: Any, message: str) -> None:
    _, errors = ask(state, f"query($n:{kind}){{CoreArtifact{{count}}}}", n=value)
    assert errors == [message]


def test_permissions_are_asked_for_the_kinds_whose_nodes_are_read(state: State) -> None:
    assert kinds_read(parse("{CoreArtifact{count}}"), state) == []
    assert kinds_read(parse("{CoreArtifact{edges{node{id}}}}"), state) == ["CoreArtifact"]
    everything = parse("{CoreArtifact{edges{node{object{node{id}} definition{node{id}}}}}}")
    assert kinds_read(everything, state) == ["CoreArtifact", "CoreArtifactTarget", "VidraApp", "CoreArtifactDefinition"]


def test_branches_are_made_and_deleted_by_mutation(state: State) -> None:
    create = "mutation($n:String!){BranchCreate(data:{name:$n}){ok object{name}}}"
    assert ask(state, create, n="feature/x") == ({"BranchCreate": {"ok": True, "object": {"name": "feature/x"}}}, [])
    assert ask(state, create, n="feature/x")[1] == ["The branch feature/x already exists"]
    assert ask(state, "{Branch{name}}")[0] == {"Branch": [{"name": "main"}, {"name": "feature/x"}]}
    ask(state, 'mutation{BranchDelete(data:{name:"feature/x"}){ok}}')
    assert list(state.branches) == ["main"]
