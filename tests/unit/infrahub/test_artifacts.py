"""Lists: whole, or an error."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vidra.infrahub.artifacts import ArtifactRef, Page, collect, read_page
from vidra.infrahub.errors import Asked, IncompleteAnswer, ListUnstable

RECORDINGS = Path(__file__).parents[2] / "recordings"
ASKED = Asked("graphql", "the artifacts", "http://infrahub:8000")


def _recorded(name: str) -> Page:
    return read_page(ASKED, json.loads((RECORDINGS / f"{name}.json").read_text())["response"]["body"]["data"])


def test_a_full_answer_gives_all_that_is_known() -> None:
    page = _recorded("graphql-artifact-page1")
    assert page.count == 5
    assert page.refs[0] == ArtifactRef(
        id="18ed05c9-b06c-366f-e3fb-13e3a6436fe6",
        name="App_Manifest",
        status="Ready",
        checksum="1316dba3ba5cee43c624071ded0bd7b4",
        storage_id="18ed05c9-c57e-e0ff-e38d-13e39293d73a",
        content_type="application/yaml",
        target_id="18ed05c7-4cac-5935-e38d-13e39b9fcb16",
        target_label="app4",
        definition="App_Manifest_Def",
    )


def test_the_id_of_the_storage_attribute_is_not_the_storage_id() -> None:
    refs = _recorded("query-stored-ok-post").refs
    assert len(refs) == 5
    assert all(ref.checksum and ref.storage_id is None and ref.status is None for ref in refs)


def test_an_artifact_in_error_keeps_its_checksum_and_a_pending_one_has_none() -> None:
    (failed,) = _recorded("graphql-artifact-error").refs
    assert (failed.status, failed.checksum) == ("Error", "0018c4c58513bc0e2baebc82bab11857")
    (pending,) = _recorded("graphql-artifact-pending").refs
    assert (pending.status, pending.checksum, pending.storage_id) == ("Pending", None, None)


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        ({}, "CoreArtifact"),
        ({"CoreArtifact": None}, "CoreArtifact"),
        ({"BranchCreate": {"ok": True}}, "CoreArtifact"),
        ({"CoreArtifact": {"count": 3}}, "CoreArtifact.edges"),
        ({"CoreArtifact": {"edges": [None]}}, "CoreArtifact.edges[0].node"),
        ({"CoreArtifact": {"edges": [{"node": None}]}}, "CoreArtifact.edges[0].node"),
        ({"CoreArtifact": {"edges": [{"node": {"checksum": {"value": "c"}}}]}}, "CoreArtifact.edges[0].node.id"),
        ({"CoreArtifact": {"edges": [{"node": {"id": "a"}}]}}, "CoreArtifact.edges[0].node.checksum{value}"),
        (
            {"CoreArtifact": {"edges": [{"node": {"id": "a", "checksum": {"id": "b"}}}]}},
            "CoreArtifact.edges[0].node.checksum{value}",
        ),
    ],
)
def test_an_answer_of_another_shape_names_what_is_missing(data: dict[str, Any], missing: str) -> None:
    with pytest.raises(IncompleteAnswer) as caught:
        read_page(ASKED, data)
    assert caught.value.text == f"the answer has no {missing}"


class Server:
    """Lists of ids, one per request; the last one stays. Each page is cut from the list of its moment."""

    def __init__(self, *lists: Sequence[str]) -> None:
        self.lists = list(lists)
        self.requests: list[tuple[int, int]] = []

    async def fetch(self, offset: int, limit: int) -> Page:
        self.requests.append((offset, limit))
        ids = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return Page(len(ids), tuple(ArtifactRef(one) for one in ids[offset : offset + limit]))


async def _ids(server: Server, **options: int) -> list[str]:
    return [ref.id for ref in await collect(ASKED, server.fetch, page_size=2, **options)]


@pytest.mark.parametrize("ids", ["", "a", "ab", "abc", "abcdefg"])
async def test_pages_become_one_list(ids: str) -> None:
    server = Server(ids)
    assert await _ids(server) == list(ids)
    assert len(server.requests) == max(1, (len(ids) + 1) // 2)
    assert all(limit == 2 for _, limit in server.requests), "limit 0 would be no limit"


async def test_a_list_that_shrinks_between_pages_is_read_again() -> None:
    # Without that, c would be missed: it moved to the page that was read already.
    assert await _ids(Server("abcd", "bcd", "bcd")) == ["b", "c", "d"]


async def test_a_list_that_changes_at_equal_count_is_read_again() -> None:
    # e came first and d left: the second page repeats b, and e is on none.
    assert await _ids(Server("abcd", "eabc", "eabc")) == ["e", "a", "b", "c"]


async def test_a_list_that_never_rests_is_an_error_after_bounded_attempts() -> None:
    server = Server(*["abcd", "abc"] * 10)
    with pytest.raises(ListUnstable, match="each of 3 readings") as caught:
        await _ids(server, attempts=3)
    assert caught.value.retryable
    assert len(server.requests) == 6


async def test_a_page_that_is_empty_before_the_end_is_not_the_end() -> None:
    async def fetch(offset: int, limit: int) -> Page:
        return Page(3, (ArtifactRef("a"),) if offset == 0 else ())

    with pytest.raises(ListUnstable):
        await collect(ASKED, fetch)


async def test_a_server_that_cuts_pages_shorter_than_asked_is_followed() -> None:
    async def fetch(offset: int, limit: int) -> Page:
        return Page(3, (ArtifactRef("abc"[offset]),))

    assert [ref.id for ref in await collect(ASKED, fetch)] == ["a", "b", "c"]


async def test_a_page_without_count_is_not_taken_for_the_whole() -> None:
    async def fetch(offset: int, limit: int) -> Page:
        return Page(None, (ArtifactRef("a"),))

    with pytest.raises(IncompleteAnswer, match="count"):
        await collect(ASKED, fetch)
