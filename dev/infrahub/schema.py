"""The types the stand-in's GraphQL knows, and the checks a query gets before it runs.

Messages are those of the real server (graphql-core 3.2): an unknown field or argument, a missing selection, a variable
that is missing or of the wrong type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infrahub.graphql_parser import Field, InlineFragment, Location, Operation, Selection, Type, Variable

STRING, INT, ID = Type("String"), Type("Int"), Type("ID")
STRINGS, IDS = Type("String", list_of=True), Type("ID", list_of=True)
_PAGE = {"offset": INT, "limit": INT, "order": Type("OrderInput"), "ids": IDS}


class GraphQLError(Exception):
    """One entry of an answer's errors. `status` is what the server says the error is, not the HTTP status."""

    def __init__(self, message: str, where: Location | None = None, *, path: list[str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.path = path


@dataclass(frozen=True)
class FieldType:
    """A field's type name; `leaf` fields have no fields of their own."""

    type: str
    leaf: bool = False
    arguments: Mapping[str, Type] = field(default_factory=dict)


Types = dict[str, dict[str, FieldType]]


def _leaves(*names: str) -> dict[str, FieldType]:
    return {name: FieldType("scalar", leaf=True) for name in names}


def _attributes(*names: str) -> dict[str, FieldType]:
    return {name: FieldType("TextAttribute") for name in names}


def _pages(kind: str, arguments: Mapping[str, Type], *, metadata: bool) -> Types:
    edge = {"node": FieldType(kind)} | ({"node_metadata": FieldType("NodeMetadata")} if metadata else {})
    return {
        f"Paginated{kind}": {**_leaves("count"), "edges": FieldType(f"Edged{kind}")},
        f"Edged{kind}": edge,
    }


def _filters(*attributes: str) -> dict[str, Type]:
    single = {f"{name}__value": STRING for name in attributes}
    return single | {f"{name}__values": STRINGS for name in attributes}


ARTIFACT_ARGUMENTS = {
    **_PAGE,
    **_filters("name", "status", "checksum", "storage_id", "content_type"),
    "definition__ids": IDS,
    "definition__name__value": STRING,
    "object__ids": IDS,
}
NAME_ARGUMENTS = {**_PAGE, **_filters("name")}


def build(kinds: Mapping[str, Iterable[str]], *, metadata: bool) -> Types:
    """The schema, with the target kinds (kind -> attribute names) in it; `metadata` came with newer servers."""
    types: Types = {
        "Query": {
            "CoreArtifact": FieldType("PaginatedCoreArtifact", arguments=ARTIFACT_ARGUMENTS),
            "CoreGraphQLQuery": FieldType("PaginatedCoreGraphQLQuery", arguments=NAME_ARGUMENTS),
            "Branch": FieldType("Branch", arguments={"ids": IDS, "name": STRING}),
        },
        "Mutation": {
            "BranchCreate": FieldType("BranchResult", arguments=_mutation("BranchCreateInput!")),
            "BranchDelete": FieldType("BranchResult", arguments=_mutation("BranchNameInput!")),
        },
        "Branch": _leaves(
            *("id", "name", "status", "description", "is_default", "origin_branch", "branched_from"),
            *("created_at", "sync_with_git", "has_schema_changes"),
        ),
        "BranchResult": {**_leaves("ok"), "object": FieldType("Branch")},
        "NodeMetadata": _leaves("created_at", "updated_at"),
        "TextAttribute": _leaves("id", "value", "updated_at", "is_default"),
        "NestedEdgedCoreArtifactTarget": {"node": FieldType("CoreArtifactTarget")},
        "NestedEdgedCoreArtifactDefinition": {"node": FieldType("CoreArtifactDefinition")},
        "CoreArtifactTarget": _leaves("id", "display_label"),
        "CoreArtifactDefinition": {**_leaves("id", "display_label"), **_attributes("name")},
        "CoreArtifact": {
            **_leaves("id", "display_label"),
            **_attributes("name", "status", "checksum", "storage_id", "content_type", "parameters"),
            "object": FieldType("NestedEdgedCoreArtifactTarget"),
            "definition": FieldType("NestedEdgedCoreArtifactDefinition"),
        },
        "CoreGraphQLQuery": {
            **_leaves("id", "display_label"),
            **_attributes("name", "query", "variables", "models", "operations", "description"),
        },
        **_pages("CoreArtifact", ARTIFACT_ARGUMENTS, metadata=metadata),
        **_pages("CoreGraphQLQuery", NAME_ARGUMENTS, metadata=metadata),
    }
    for kind, attributes in kinds.items():
        types["Query"][kind] = FieldType(f"Paginated{kind}", arguments=NAME_ARGUMENTS)
        types[kind] = {**_leaves("id", "display_label"), **_attributes(*attributes)}
        types |= _pages(kind, NAME_ARGUMENTS, metadata=metadata)
    return types


def _mutation(data: str) -> dict[str, Type]:
    wait = {"wait_until_completion": Type("Boolean"), "background_execution": Type("Boolean")}
    return {"data": Type(data.removesuffix("!"), required=True), **wait}


def validate(operation: Operation, types: Types) -> list[GraphQLError]:
    """What is wrong with the operation before it is run; empty when nothing is."""
    errors: list[GraphQLError] = []
    declared = {definition.name for definition in operation.variables}
    _check(operation.selection, operation.kind.capitalize(), types, declared, errors)
    return errors


def _check(
    selections: list[Selection], kind: str, types: Types, declared: set[str], errors: list[GraphQLError]
) -> None:
    fields = types[kind]
    for selection in selections:
        if isinstance(selection, InlineFragment):
            name = selection.kind or kind
            if name in types:
                _check(selection.selection, name, types, declared, errors)
            else:
                errors.append(GraphQLError(f"Unknown type '{name}'."))
        elif selection.name != "__typename":
            known = fields.get(selection.name)
            if known is None:
                message = f"Cannot query field '{selection.name}' on type '{kind}'."
                errors.append(GraphQLError(message + _hint(selection.name, fields), selection.where))
                continue
            _check_field(selection, kind, known, declared, errors)
            if not known.leaf and selection.selection:
                _check(selection.selection, known.type, types, declared, errors)


def _check_field(selection: Field, kind: str, known: FieldType, declared: set[str], errors: list[GraphQLError]) -> None:
    name = selection.name
    if known.leaf and selection.selection:
        message = f"Field '{name}' must not have a selection since type '{known.type}' has no subfields."
        errors.append(GraphQLError(message, selection.where))
    if not known.leaf and not selection.selection:
        message = f"Field '{name}' of type '{known.type}' must have a selection of subfields."
        errors.append(GraphQLError(f"{message} Did you mean '{name} {{ ... }}'?", selection.where))
    for argument, value in selection.arguments.items():
        if argument not in known.arguments:
            message = f"Unknown argument '{argument}' on field '{kind}.{name}'."
            errors.append(GraphQLError(message + _hint(argument, known.arguments), selection.where))
        unknown = [variable for variable in variables_in(value) if variable not in declared]
        errors += [GraphQLError(f"Variable '${variable}' is not defined.", selection.where) for variable in unknown]


def variables_in(value: Any) -> list[str]:
    """The names of the variables an argument's value uses."""
    if isinstance(value, Variable):
        return [value.name]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for part in parts for name in variables_in(part)]


def _hint(name: str, known: Iterable[str]) -> str:
    """The server's guess at what was meant, close names first."""
    limit = int(len(name) * 0.4) + 1
    near = sorted((distance, other) for other in known if (distance := _distance(name, other)) <= limit)
    names = [f"'{other}'" for _, other in near[:5]]
    if not names:
        return ""
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + ("," * (len(names) > 2)) + f" or {names[-1]}"
    return f" Did you mean {listed}?"


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]


def coerce_variables(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """The declared variables' values; what isn't declared is ignored. Raises GraphQLError."""
    values: dict[str, Any] = {}
    for definition in operation.variables:
        name, kind = definition.name, definition.type
        if name not in given:
            if kind.required and definition.default is None:
                message = f"Variable '${name}' of required type '{kind}' was not provided."
                raise GraphQLError(message, definition.where)
            values[name] = definition.default
            continue
        try:
            values[name] = coerce(given[name], kind)
        except ValueError as error:
            what = str(error)
            message = (
                f"Variable '${name}' of non-null type '{kind}' must not be null."
                if given[name] is None
                else f"Variable '${name}' got invalid value {given[name]!r}; {what}"
            )
            raise GraphQLError(message, definition.where) from None
    return values


def coerce(value: Any, kind: Type) -> Any:
    """The value as the type wants it; a single value becomes a list where a list is wanted. Raises ValueError."""
    if value is None:
        if kind.required:
            raise ValueError(f"Expected non-nullable type '{kind}' not to be None.")
        return None
    if kind.list_of:
        items = value if isinstance(value, list) else [value]
        return [coerce(item, Type(kind.name, required=kind.inner_required)) for item in items]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind.name == "String" and not isinstance(value, str):
        raise ValueError(f"String cannot represent a non string value: {value!r}")
    if kind.name == "Int" and not (number and int(value) == value):
        raise ValueError(f"Int cannot represent non-integer value: {value!r}")
    if kind.name == "Boolean" and not isinstance(value, bool):
        raise ValueError(f"Boolean cannot represent a non boolean value: {value!r}")
    if kind.name == "ID" and not isinstance(value, str | int):
        raise ValueError(f"ID cannot represent value: {value!r}")
    return value
