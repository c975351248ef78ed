"""What an answer of Infrahub says about artifacts, and how a list of many pages becomes one.

Promises: a list is whole or it is an error. An answer that lacks what Vidra needs, a page that lies about its count, a
list that changes while its pages are read: none of them becomes a shorter list, which would prune somebody's workload.

An attribute counts by its ``{value}`` only. ``storage_id{id}``, which the well-known ArtifactIDs query asks for, is the
id of the attribute and never changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vidra.infrahub.errors import Asked, IncompleteAnswer, ListUnstable

#: Artifacts per page of the built-in query.
PAGE_SIZE = 100
#: How often a list is begun anew when it changed under the reading.
LIST_ATTEMPTS = 3

_PLAIN = "id name{value} status{value} checksum{value} storage_id{value} content_type{value}"
_RICH = _PLAIN + " object{node{id display_label}} definition{node{id display_label}}"
_PAGE = (
    "query($name:String!,$offset:Int!,$limit:Int!)"
    "{CoreArtifact(name__value:$name,offset:$offset,limit:$limit){count edges{node{%s}}}}"
)
#: One page with target and definition. The account needs to see the kinds of all targets.
RICH_PAGE = _PAGE % _RICH
#: One page of what an account may see that has view on Core Artifact and nothing else.
PLAIN_PAGE = _PAGE % _PLAIN
#: The text of a stored query.
STORED_QUERY_TEXT = "query($name:String!){CoreGraphQLQuery(name__value:$name){edges{node{id query{value}}}}}"
#: When each branch began.
BRANCHES = "query{Branch{name is_default created_at}}"


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """One artifact as a list names it.

    ``checksum`` is the md5 in hex of its UTF-8 content, None while it was never rendered (``status`` Pending).
    With a checksum it is served whatever ``status`` says: Error keeps the last good content, and stays for ever when
    the next rendering gives the same. What a stored query didn't ask for is None.
    """

    id: str
    name: str | None = None
    status: str | None = None
    checksum: str | None = None
    storage_id: str | None = None
    content_type: str | None = None
    target_id: str | None = None
    target_label: str | None = None
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """``count`` is the total the server speaks of, None when the query didn't ask for it."""

    count: int | None
    refs: tuple[ArtifactRef, ...]


def read_page(asked: Asked, data: Mapping[str, Any]) -> Page:
    """Reads ``data.CoreArtifact``; unknown fields are ignored. Raises IncompleteAnswer naming what is missing."""
    connection = data.get("CoreArtifact")
    if not isinstance(connection, Mapping):
        raise IncompleteAnswer(asked, "the answer has no CoreArtifact")
    edges = connection.get("edges")
    if not isinstance(edges, list):
        raise IncompleteAnswer(asked, "the answer has no CoreArtifact.edges")
    count = connection.get("count")
    refs = (_read_node(asked, edge, f"CoreArtifact.edges[{n}].node") for n, edge in enumerate(edges))
    return Page(count if isinstance(count, int) else None, tuple(refs))


def _read_node(asked: Asked, edge: Any, where: str) -> ArtifactRef:
    node = edge.get("node") if isinstance(edge, Mapping) else None
    if not isinstance(node, Mapping):
        raise IncompleteAnswer(asked, f"the answer has no {where}")
    artifact_id = node.get("id")
    if not isinstance(artifact_id, str) or not artifact_id:
        raise IncompleteAnswer(asked, f"the answer has no {where}.id")
    checksum = node.get("checksum")
    if not isinstance(checksum, Mapping) or "value" not in checksum:
        raise IncompleteAnswer(asked, f"the answer has no {where}.checksum{{value}}")
    target, definition = _peer(node, "object"), _peer(node, "definition")
    return ArtifactRef(
        id=artifact_id,
        name=_value(node, "name"),
        status=_value(node, "status"),
        checksum=_value(node, "checksum"),
        storage_id=_value(node, "storage_id"),
        content_type=_value(node, "content_type"),
        target_id=_text(target.get("id")),
        target_label=_text(target.get("display_label")),
        definition=_text(definition.get("display_label")),
    )


def _value(node: Mapping[str, Any], name: str) -> str | None:
    attribute = node.get(name)
    return _text(attribute.get("value")) if isinstance(attribute, Mapping) else None


def _peer(node: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    relation = node.get(name)
    peer = relation.get("node") if isinstance(relation, Mapping) else None
    return peer if isinstance(peer, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


async def collect(
    asked: Asked,
    fetch: Callable[[int, int], Awaitable[Page]],
    *,
    page_size: int = PAGE_SIZE,
    attempts: int = LIST_ATTEMPTS,
) -> tuple[ArtifactRef, ...]:
    """Reads pages by ``fetch(offset, limit)`` until all of ``count`` are there, each id once.

    Offsets shift when an artifact comes or goes between two pages, and then one is missed or met twice: a count that
    moved, an empty page before the end, fewer ids than the count each begin the list anew. Raises ListUnstable after
    ``attempts``, IncompleteAnswer when a page has no count.
    """
    for _ in range(attempts):
        refs = await _read_once(asked, fetch, page_size)
        if refs is not None:
            return refs
    raise ListUnstable(asked, f"the list changed during each of {attempts} readings")


async def _read_once(
    asked: Asked, fetch: Callable[[int, int], Awaitable[Page]], page_size: int
) -> tuple[ArtifactRef, ...] | None:
    """The whole list, None when it moved."""
    found: dict[str, ArtifactRef] = {}
    offset, total = 0, None
    while total is None or offset < total:
        page = await fetch(offset, page_size)
        if page.count is None:
            raise IncompleteAnswer(asked, "the answer has no CoreArtifact.count")
        total = page.count if total is None else total
        if page.count != total or (not page.refs and offset < total):
            return None
        found.update((ref.id, ref) for ref in page.refs)
        offset += len(page.refs)
    return tuple(found.values()) if len(found) == total else None
