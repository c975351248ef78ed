"""Runs a read operation against the state: artifacts, stored queries, branches, target kinds.

`run` gives (data, errors) as the server's answer has them; `kinds_read` says which kinds an operation reads node
values of, which is what permissions are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from infrahub import schema
from infrahub.clock import written
from infrahub.graphql_parser import Field, InlineFragment, Operation, Selection, Type, Variable, parse
from infrahub.schema import GraphQLError
from infrahub.state import ATTRIBUTES, Branch, Node, NoSuchBranchError, Seen, State, StoredQuery

T = TypeVar("T")
Json = dict[str, Any]
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """Where and when an operation reads, and whether the server is new enough for node_metadata."""

    state: State
    branch: Branch
    at: datetime
    metadata: bool = True


def target_kinds(state: State) -> dict[str, list[str]]:
    """The kinds an artifact may be made for, with their attributes."""
    kinds: dict[str, list[str]] = {}
    for node in state.nodes.values():
        if node.kind != "CoreArtifactDefinition":
            kinds.setdefault(node.kind, list(node.attributes))
    return kinds


def run(operation: Operation, variables: Mapping[str, Any], context: Context) -> tuple[Json | None, list[GraphQLError]]:
    """Execute; nothing is executed when the operation or its variables are wrong."""
    types = schema.build(target_kinds(context.state), metadata=context.metadata)
    if errors := schema.validate(operation, types):
        return None, errors
    try:
        values = schema.coerce_variables(operation, variables)
    except GraphQLError as error:
        return None, [error]
    roots: dict[str, Callable[[Context, Arguments], Any]] = {
        "CoreArtifact": _artifacts,
        "CoreGraphQLQuery": _queries,
        "Branch": _branches,
        "BranchCreate": _create_branch,
        "BranchDelete": _delete_branch,
    }
    data: Json = {}
    errors = []
    root_fields = types[operation.kind.capitalize()]
    for field in _fields(operation.selection, operation.kind.capitalize()):
        if field.name == "__typename":
            data[field.key] = operation.kind.capitalize()
            continue
        try:
            arguments = _arguments(field, root_fields[field.name].arguments, values)
            if field.name in roots:
                answer = roots[field.name](context, arguments)
            else:
                answer = _targets(context, field.name, arguments)
            data[field.key] = _pick(answer, field.selection)
        except GraphQLError as error:
            data[field.key] = None
            errors.append(GraphQLError(error.message, field.where, path=[field.key]))
    return data, errors


def _arguments(field: Field, known: Mapping[str, Type], values: Mapping[str, Any]) -> Json:
    def filled(value: Any) -> Any:
        if isinstance(value, Variable):
            return values[value.name]
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    arguments: Json = {}
    for name, kind in known.items():
        try:
            value = schema.coerce(filled(field.arguments.get(name)), kind)
        except ValueError as error:
            raise GraphQLError(f"Argument '{name}' has invalid value. {error}") from None
        if value is not None:
            arguments[name] = value
    return arguments


def _fields(selection: list[Selection], kind: str) -> list[Field]:
    """The selection's fields for a value of this kind, fragments resolved."""
    found: list[Field] = []
    for part in selection:
        if isinstance(part, Field):
            found.append(part)
        elif part.kind in (None, kind, "CoreNode", "CoreArtifactTarget"):
            found.extend(_fields(part.selection, kind))
    return found


def _pick(value: Any, selection: list[Selection]) -> Any:
    """The part of a resolved value the selection asks for, under the names it gives."""
    if isinstance(value, list):
        return [_pick(item, selection) for item in value]
    if not isinstance(value, dict) or not selection:
        return value
    return {field.key: _pick(value[field.name], field.selection) for field in _fields(selection, value["__typename"])}


# -- what is read -----------------------------------------------------------------------------------------------


def _page(kind: str, rows: Sequence[T], edge: Callable[[T], Json], arguments: Arguments) -> Json:
    """A page of edges, built from the page's rows only. A limit of 0 is no limit, as on the real server."""
    start = arguments.get("offset", 0)
    limit = arguments.get("limit") or len(rows)
    edges = [{"__typename": f"Edged{kind}", **edge(row)} for row in rows[start : start + limit]]
    return {"__typename": f"Paginated{kind}", "count": len(rows), "edges": edges}


def _attribute(value: Any, *, attribute_id: str = "", updated: datetime | None = None) -> Json:
    at = updated.isoformat(timespec="microseconds") if updated else None
    kind = "TextAttribute"
    return {"__typename": kind, "id": attribute_id, "value": value, "updated_at": at, "is_default": False}


def _metadata(created: datetime, updated: datetime) -> Json:
    times = {"created_at": created, "updated_at": updated}
    return {"__typename": "NodeMetadata", **{k: v.isoformat(timespec="microseconds") for k, v in times.items()}}


def _artifacts(context: Context, arguments: Arguments) -> Json:
    seen = [s for s in context.state.all_seen(context.branch, context.at) if _wanted(s, arguments)]
    if arguments.get("order", {}).get("disable"):
        seen.sort(key=lambda s: s.node.id)
    return _page("CoreArtifact", seen, _artifact_edge, arguments)


def _wanted(seen: Seen, arguments: Arguments) -> bool:
    node, version = seen.node, seen.version
    facts = {
        "ids": node.id,
        "name": node.name,
        "content_type": node.content_type,
        "status": version.status,
        "checksum": version.checksum,
        "storage_id": version.storage_id,
        "definition__ids": node.definition.id,
        "definition__name": node.definition.label,
        "object__ids": node.target.id,
    }
    for argument, wanted in arguments.items():
        if argument.endswith("__value"):
            if facts[argument.removesuffix("__value")] != wanted:
                return False
        elif argument.endswith(("__values", "ids")) and facts[argument.removesuffix("__values")] not in wanted:
            return False
    return True


def _artifact_edge(seen: Seen) -> Json:
    node, version = seen.node, seen.version
    values: Json = {
        "name": node.name,
        "status": version.status,
        "checksum": version.checksum,
        "storage_id": version.storage_id,
        "content_type": node.content_type,
        "parameters": {},
    }
    return {
        "node": {
            "__typename": "CoreArtifact",
            "id": node.id,
            "display_label": node.name,
            **{
                name: _attribute(values[name], attribute_id=node.attribute_ids[name], updated=seen.changed(name))
                for name in ATTRIBUTES
            },
            "object": {"__typename": "NestedEdgedCoreArtifactTarget", "node": _node(node.target)},
            "definition": {"__typename": "NestedEdgedCoreArtifactDefinition", "node": _node(node.definition)},
        },
        "node_metadata": _metadata(node.created, version.at),
    }


def _node(node: Node) -> Json:
    attributes = {name: _attribute(value) for name, value in node.attributes.items()}
    return {"__typename": node.kind, "id": node.id, "display_label": node.label, **attributes}


def _named(name: str, node_id: str, arguments: Arguments) -> bool:
    return (
        name == arguments.get("name__value", name)
        and name in arguments.get("name__values", [name])
        and node_id in arguments.get("ids", [node_id])
    )


def _queries(context: Context, arguments: Arguments) -> Json:
    queries = [
        query
        for query in sorted(context.state.queries.values(), key=lambda query: query.name)
        if query.created <= context.at and _named(query.name, query.id, arguments)
    ]

    def edge(query: StoredQuery) -> Json:
        metadata = _metadata(query.created, query.created)
        return {"node": _stored_query(query, context.state), "node_metadata": metadata}

    return _page("CoreGraphQLQuery", queries, edge, arguments)


def _stored_query(query: StoredQuery, state: State) -> Json:
    operation = parse(query.text)
    variables = [
        {
            "name": variable.name,
            "type": variable.type.name,
            "required": variable.type.required,
            "is_list": variable.type.list_of,
            "inner_required": variable.type.inner_required,
            "default": variable.default,
        }
        for variable in operation.variables
    ]
    values: Json = {
        "name": query.name,
        "query": query.text,
        "variables": variables,
        "models": kinds_read(operation, state),
        "operations": [operation.kind],
        "description": None,
    }
    attributes = {name: _attribute(value, updated=query.created) for name, value in values.items()}
    return {"__typename": "CoreGraphQLQuery", "id": query.id, "display_label": query.name, **attributes}


def _targets(context: Context, kind: str, arguments: Arguments) -> Json:
    nodes = [n for n in context.state.nodes.values() if n.kind == kind and _named(n.label, n.id, arguments)]
    made = context.branch.created
    metadata = _metadata(made, made)
    return _page(kind, nodes, lambda node: {"node": _node(node), "node_metadata": metadata}, arguments)


def _branch(branch: Branch) -> Json:
    return {
        "__typename": "Branch",
        "id": branch.id,
        "name": branch.name,
        "status": branch.status,
        "description": None,
        "is_default": branch.default,
        "origin_branch": "main",
        "branched_from": written(branch.branched),
        "created_at": written(branch.created),
        "sync_with_git": branch.default,
        "has_schema_changes": False,
    }


def _branches(context: Context, arguments: Arguments) -> list[Json]:
    wanted = arguments.get("name")
    ids = arguments.get("ids")
    branches = context.state.branches.values()
    return [_branch(b) for b in branches if wanted in (None, b.name) and (ids is None or b.id in ids)]


def _create_branch(context: Context, arguments: Arguments) -> Json:
    name = arguments["data"]["name"]
    if name in context.state.branches:
        raise GraphQLError(f"The branch {name} already exists")
    branch = context.state.create_branch(name)
    return {"__typename": "BranchResult", "ok": True, "object": _branch(branch)}


def _delete_branch(context: Context, arguments: Arguments) -> Json:
    name = arguments["data"]["name"]
    try:
        branch = context.state.branch(name)
        context.state.delete_branch(name)
    except NoSuchBranchError:
        raise GraphQLError(f"Branch: {name} not found.") from None
    return {"__typename": "BranchResult", "ok": True, "object": _branch(branch)}


# -- what may be read -------------------------------------------------------------------------------------------


def kinds_read(operation: Operation, state: State) -> list[str]:
    """The kinds whose nodes the operation reads, in the order the server names them. A bare count reads none."""
    found: list[str] = []
    for field in _fields(operation.selection, "Query"):
        if operation.kind == "query" and (nodes := _below(field.selection, "edges", "node")):
            found.append(field.name)
            names = {part.name for part in nodes}
            if "object" in names:
                found += ["CoreArtifactTarget", *target_kinds(state)]
            if "definition" in names:
                found.append("CoreArtifactDefinition")
    return list(dict.fromkeys(found))


def _below(selection: list[Selection], *path: str) -> list[Field]:
    fields = [part for part in selection if isinstance(part, Field)]
    fields += [f for part in selection if isinstance(part, InlineFragment) for f in _below(part.selection)]
    if not path:
        return fields
    return [deeper for field in fields if field.name == path[0] for deeper in _below(field.selection, *path[1:])]
