"""The client against the stand-in: what it lists and downloads, and what it refuses to believe."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from infrahub import Standin
from vidra.infrahub import ArtifactRef, ClientPool, Credentials, InfrahubClient, errors, pin

ADMIN = Credentials(username="admin", password="infrahub")
NAME = "Web"


@pytest.fixture
async def server() -> AsyncIterator[Standin]:
    async with Standin() as standin:
        standin.accounts.anonymous = False
        yield standin


@pytest.fixture
async def client(server: Standin) -> AsyncIterator[InfrahubClient]:
    async with InfrahubClient(server.url, ADMIN, timeout=5) as client:
        yield client


def fill(server: Standin, count: int) -> list[str]:
    return [server.add_artifact(name=NAME, content=f"number: {n}\n", target=f"app{n}") for n in range(count)]


def at(server: Standin, seconds: float = 0) -> str:
    text = pin("-0s", server.now() + timedelta(seconds=seconds))
    assert text is not None
    return text


# Lists


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
async def test_artifacts_are_listed_and_downloaded(server: Standin, client: InfrahubClient, query: str | None) -> None:
    wanted, _ = server.add_artifact(name=NAME, content="café: 1\n", target="a"), fill(server, 0)
    server.add_artifact(name="Other", content="x: 1\n", target="a")
    (ref,) = await client.list_artifacts(NAME, query=query)
    assert (ref.id, ref.name) == (wanted, NAME)
    assert ref.checksum == hashlib.md5("café: 1\n".encode()).hexdigest()
    assert await client.download(ref) == "café: 1\n"
    # The stored query gives the id of the attribute only, which leads nowhere.
    by_storage = server.count(path_prefix="/api/storage/object/")
    assert (by_storage, server.count(path_prefix="/api/artifact/")) == ((0, 1) if query else (1, 0))
    assert all(request.query.get("update_group", "false") == "false" for request in server.requests)


async def test_the_built_in_list_comes_in_pages_and_knows_targets(server: Standin, client: InfrahubClient) -> None:
    ids = fill(server, 250)
    refs = await client.list_artifacts(NAME, branch="main")
    assert {ref.id for ref in refs} == set(ids)
    assert {ref.target_label for ref in refs} == {f"app{n}" for n in range(250)}
    assert {(ref.definition, ref.status) for ref in refs} == {(f"{NAME}_Def", "Ready")}
    assert server.count(path_prefix="/graphql/main") == 3


async def test_no_name_is_refused_as_it_would_be_no_filter(server: Standin, client: InfrahubClient) -> None:
    with pytest.raises(errors.BadRequest, match="a name is needed"):
        await client.list_artifacts("")
    assert server.requests == []


async def test_states_are_reported_and_error_keeps_what_was_good(server: Standin, client: InfrahubClient) -> None:
    broken, waiting = fill(server, 2)
    server.set_error(broken)
    server.set_pending(waiting)
    refs = {ref.id: ref for ref in await client.list_artifacts(NAME)}
    assert refs[broken].status == "Error"
    assert await client.download(refs[broken]) == "number: 0\n"
    assert refs[waiting].status == "Pending"
    before = len(server.requests)
    with pytest.raises(errors.ContentMissing, match="not rendered yet"):
        await client.download(refs[waiting])
    assert len(server.requests) == before


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
@pytest.mark.parametrize("branch", ["feature/a#1", "Über-2", "-dash"])
async def test_one_artifact_on_two_branches_has_one_id_and_two_contents(
    server: Standin, client: InfrahubClient, query: str | None, branch: str
) -> None:
    (artifact,) = fill(server, 1)
    server.create_branch(branch)
    server.change_artifact(artifact, "number: branch\n", branch=branch)
    (on_main,) = await client.list_artifacts(NAME, branch="main", query=query)
    (on_branch,) = await client.list_artifacts(NAME, branch=branch, query=query)
    assert on_main.id == on_branch.id
    assert await client.download(on_main, branch="main") == "number: 0\n"
    assert await client.download(on_branch, branch=branch) == "number: branch\n"


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
async def test_a_deleted_branch_is_an_error_and_no_empty_list(
    server: Standin, client: InfrahubClient, query: str | None
) -> None:
    fill(server, 1)
    server.create_branch("feature/x")
    await client.list_artifacts(NAME, branch="feature/x", query=query)
    server.delete_branch("feature/x")
    # With the query both codes are met: the second request goes to REST, as the query's text is still believed.
    with pytest.raises(errors.BranchNotFound, match=r"feature/x") as caught:
        await client.list_artifacts(NAME, branch="feature/x", query=query)
    assert caught.value.status == (400 if query else 404)
    (ref,) = await client.list_artifacts(NAME)
    lost = ArtifactRef(ref.id, checksum=ref.checksum)
    with pytest.raises(errors.BranchNotFound):
        await client.download(lost, branch="feature/x")


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
async def test_the_past_is_read_at_one_instant(server: Standin, client: InfrahubClient, query: str | None) -> None:
    (artifact,) = fill(server, 1)
    server.clock.advance(3600)
    server.change_artifact(artifact, "number: new\n")
    then = at(server, -60)
    (ref,) = await client.list_artifacts(NAME, at=then, query=query)
    assert await client.download(ref, at=then) == "number: 0\n"
    (ref,) = await client.list_artifacts(NAME, query=query)
    assert await client.download(ref) == "number: new\n"


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
@pytest.mark.parametrize("version", ["1.11.9", "1.4.13"])
async def test_a_date_before_the_start_is_an_error_and_no_empty_list(version: str, query: str | None) -> None:
    async with Standin(server_version=version) as server, InfrahubClient(server.url, ADMIN) as client:
        fill(server, 1)
        with pytest.raises(errors.DateBeforeStart, match="created at"):
            await client.list_artifacts(NAME, at=at(server, -3600), query=query)
        server.clock.advance(60)
        assert await client.list_artifacts("Nothing", at=at(server, -1), query=query) == ()


# Stored queries


async def test_a_mutation_is_refused_and_never_sent(server: Standin, client: InfrahubClient) -> None:
    server.add_query("make", "mutation M($artifactname: String!) { BranchCreate(data: {name: $artifactname}) { ok } }")
    for _ in range(2):
        with pytest.raises(errors.QueryRefused, match="it is a mutation"):
            await client.list_artifacts(NAME, query="make")
    assert server.count(path_prefix="/api/query") == 0
    assert server.count(path_prefix="/graphql") == 1, "the verdict is kept"


async def test_a_query_that_would_ignore_the_name_is_refused(server: Standin, client: InfrahubClient) -> None:
    text = "query Q($artefactname: [String]) { CoreArtifact(name__values: $artefactname) { edges { node { id } } } }"
    server.add_query("typo", text)
    with pytest.raises(errors.QueryRefused, match=r"doesn't declare the variable \$artifactname"):
        await client.list_artifacts(NAME, query="typo")
    assert server.count(path_prefix="/api/query") == 0


async def test_a_verdict_is_formed_again_after_a_while(server: Standin) -> None:
    now = 0.0
    async with InfrahubClient(server.url, ADMIN, clock=lambda: now) as client:
        await client.list_artifacts(NAME, query="ArtifactIDs")
        await client.list_artifacts(NAME, query="ArtifactIDs")
        assert server.count(path_prefix="/graphql") == 1
        now = 301.0
        server.add_query("ArtifactIDs", "mutation M($artifactname: String) { a { ok } }")
        with pytest.raises(errors.QueryRefused, match="mutation"):
            await client.list_artifacts(NAME, query="ArtifactIDs")


async def test_an_unknown_query_and_an_unknown_field_are_told_apart(server: Standin, client: InfrahubClient) -> None:
    with pytest.raises(errors.QueryNotFound, match="Nope") as caught:
        await client.list_artifacts(NAME, query="Nope")
    assert not caught.value.retryable
    text = "query Q($artifactname: Int) { CoreArtifact(limit: $artifactname) { edges { node { id } } } }"
    server.add_query("typed", text)
    with pytest.raises(errors.QueryRefused, match="invalid value") as refused:
        await client.list_artifacts(NAME, query="typed")
    assert (refused.value.status, refused.value.retryable) == (502, False)


async def test_a_query_that_pages_its_answer_is_not_the_whole_list(server: Standin, client: InfrahubClient) -> None:
    fill(server, 3)
    text = (
        "query Q($artifactname: [String]) { CoreArtifact(name__values: $artifactname, limit: 2) "
        "{ count edges { node { id checksum { value } } } } }"
    )
    server.add_query("paged", text)
    with pytest.raises(errors.IncompleteAnswer, match="gives 2 of 3 artifacts"):
        await client.list_artifacts(NAME, query="paged")


async def test_a_query_without_checksums_names_what_is_missing(server: Standin, client: InfrahubClient) -> None:
    fill(server, 1)
    text = "query Q($artifactname: [String]) { CoreArtifact(name__values: $artifactname) { edges { node { id } } } }"
    server.add_query("bare", text)
    with pytest.raises(errors.IncompleteAnswer, match=r"edges\[0\]\.node\.checksum\{value\}"):
        await client.list_artifacts(NAME, query="bare")


@pytest.fixture
async def narrow(server: Standin) -> AsyncIterator[InfrahubClient]:
    """A client whose account may view artifacts and nothing else."""
    server.accounts.add("narrow", "pw", views=frozenset({"CoreArtifact"}))
    async with InfrahubClient(server.url, Credentials("narrow", "pw")) as client:
        yield client


async def test_an_account_that_sees_artifacts_only_lists_without_targets(
    server: Standin, narrow: InfrahubClient
) -> None:
    ids = fill(server, 2)
    for requests in (2, 3):
        refs = await narrow.list_artifacts(NAME)
        assert [(ref.id, ref.target_label) for ref in refs] == [(one, None) for one in ids]
        assert server.count(path_prefix="/graphql") == requests, "that it may not is remembered"


async def test_an_unreadable_query_is_checked_by_the_names_it_answers(server: Standin, narrow: InfrahubClient) -> None:
    ids = fill(server, 2)
    everything = "query Q { CoreArtifact { edges { node { id name { value } checksum { value } } } } }"
    server.add_query("everything", everything)
    server.add_query("nameless", everything.replace("name { value } ", ""))
    other = server.add_artifact(name="Other", content="x: 1\n", target="a")
    refs = await narrow.list_artifacts(NAME, query="everything")
    assert [ref.id for ref in refs] == ids
    assert other not in {ref.id for ref in refs}
    with pytest.raises(errors.QueryRefused, match="none of the 3 artifacts"):
        await narrow.list_artifacts("Third", query="everything")
    with pytest.raises(errors.IncompleteAnswer, match=r"name\{value\}"):
        await narrow.list_artifacts(NAME, query="nameless")


# Content


async def test_a_rendering_between_list_and_download_is_noticed(server: Standin, client: InfrahubClient) -> None:
    (artifact,) = fill(server, 1)
    (ref,) = await client.list_artifacts(NAME)
    (bare,) = await client.list_artifacts(NAME, query="ArtifactIDs")
    server.change_artifact(artifact, "number: new\n")
    assert await client.download(ref) == "number: 0\n", "content by its storage id never changes"
    with pytest.raises(errors.ChecksumMismatch) as caught:
        await client.download(bare)
    assert caught.value.retryable
    (bare,) = await client.list_artifacts(NAME, query="ArtifactIDs")
    assert await client.download(bare) == "number: new\n"


@pytest.mark.parametrize("query", [None, "ArtifactIDs"])
async def test_lost_content_is_not_a_lost_artifact(server: Standin, client: InfrahubClient, query: str | None) -> None:
    (artifact,) = fill(server, 1)
    server.lose_content(artifact)
    (ref,) = await client.list_artifacts(NAME, query=query)
    with pytest.raises(errors.ContentMissing, match="StorageObject"):
        await client.download(ref)


@pytest.mark.parametrize(("version", "kind"), [("1.11.9", errors.ContentAltered), ("1.4.13", errors.ChecksumMismatch)])
async def test_altered_content_is_never_handed_on(version: str, kind: type[Exception]) -> None:
    async with Standin(server_version=version) as server, InfrahubClient(server.url, ADMIN) as client:
        (artifact,) = fill(server, 1)
        (ref,) = await client.list_artifacts(NAME)
        server.alter_content(artifact, b"evil: true\n")
        with pytest.raises(kind, match="checksum"):
            await client.download(ref)


async def test_content_must_be_text_and_fit(server: Standin) -> None:
    server.add_artifact(name="Binary", content=b"a: \xff\n", target="a")
    server.add_artifact(name="Large", content="x" * 101, target="a")
    server.add_artifact(name="Fits", content="x" * 100, target="a")
    async with InfrahubClient(server.url, ADMIN, max_content=100) as client:
        refs = [(await client.list_artifacts(name))[0] for name in ("Binary", "Large", "Fits")]
        with pytest.raises(errors.ContentNotText, match="byte 3 is 0xff"):
            await client.download(refs[0])
        with pytest.raises(errors.ContentTooLarge, match="101 bytes, 100 are allowed"):
            await client.download(refs[1])
        assert len(await client.download(refs[2])) == 100


async def test_content_cut_short_is_an_error_and_the_next_try_works(server: Standin, client: InfrahubClient) -> None:
    fill(server, 1)
    (ref,) = await client.list_artifacts(NAME)
    server.faults.cut_short("/api/storage", 4, times=1)
    with pytest.raises(errors.Unreachable) as caught:
        await client.download(ref)
    assert caught.value.retryable
    assert await client.download(ref) == "number: 0\n"


# Login


async def test_one_login_serves_all_callers_until_the_token_ends(server: Standin) -> None:
    now = 0.0
    async with InfrahubClient(server.url, ADMIN, clock=lambda: now) as client:
        await asyncio.gather(*(client.list_artifacts(NAME) for _ in range(20)))
        assert server.count(path_prefix="/api/auth/login") == 1
        now = 3500.0
        await client.list_artifacts(NAME)
        assert server.count(path_prefix="/api/auth/login") == 1
        now = 3545.0
        await client.list_artifacts(NAME)
        assert server.count(path_prefix="/api/auth/login") == 2, "renewed before it ends"


async def test_a_token_goes_with_every_request_and_needs_no_login(server: Standin) -> None:
    fill(server, 1)
    async with InfrahubClient(server.url, Credentials(token=server.api_key)) as client:
        (ref,) = await client.list_artifacts(NAME, query="ArtifactIDs")
        await client.download(ref)
    assert server.count(path_prefix="/api/auth") == 0
    assert {request.account for request in server.requests} == {"admin"}


async def test_a_refused_token_is_renewed_once_for_all(server: Standin, client: InfrahubClient) -> None:
    await client.list_artifacts(NAME)
    server.accounts.rotate_secret()
    await asyncio.gather(*(client.list_artifacts(NAME) for _ in range(10)))
    assert server.count(path_prefix="/api/auth/login") == 2


async def test_a_fresh_token_that_is_refused_too_ends_the_matter(server: Standin, client: InfrahubClient) -> None:
    server.faults.answer("/graphql", 401, {"errors": [{"message": "Invalid token"}]})
    with pytest.raises(errors.AuthenticationFailed, match="Invalid token"):
        await client.list_artifacts(NAME)
    assert server.count(path_prefix="/api/auth/login") == 2
    assert server.count(path_prefix="/graphql") == 2


@pytest.mark.parametrize(
    ("credentials", "status", "text", "requests"),
    [
        (Credentials("admin", "hush"), 401, "Incorrect password", 1),
        (Credentials("nobody", "hush"), 404, "doesn't exist", 1),
        (Credentials("asleep", "hush"), 401, "not allowed to login", 1),
        (Credentials(token="hush"), 401, "Invalid token", 1),
    ],
)
async def test_bad_credentials_are_tried_once(
    server: Standin, credentials: Credentials, status: int, text: str, requests: int
) -> None:
    server.accounts.add("asleep", "hush", active=False)
    async with InfrahubClient(server.url, credentials) as client:
        with pytest.raises(errors.AuthenticationFailed, match=text) as caught:
            await client.list_artifacts(NAME)
    assert (caught.value.status, caught.value.retryable) == (status, False)
    assert len(server.requests) == requests
    assert "hush" not in caught.value.message


async def test_an_account_without_a_role_is_denied_and_not_logged_in_again(server: Standin) -> None:
    server.accounts.add("roleless", "pw", views=frozenset())
    fill(server, 1)
    async with InfrahubClient(server.url, Credentials("roleless", "pw")) as client:
        for query in (None, "ArtifactIDs"):
            with pytest.raises(errors.PermissionDenied, match="view"):
                await client.list_artifacts(NAME, query=query)
    assert server.count(path_prefix="/api/auth/login") == 1


async def test_a_caller_that_gives_up_leaves_the_login_to_the_others(server: Standin, client: InfrahubClient) -> None:
    server.faults.delay("/api/auth/login", 0.2, times=1)
    first = asyncio.create_task(client.list_artifacts(NAME))
    second = asyncio.create_task(client.list_artifacts(NAME))
    while not server.count(path_prefix="/api/auth/login"):
        await asyncio.sleep(0)
    first.cancel()
    assert await second == ()
    assert first.cancelled()
    assert server.count(path_prefix="/api/auth/login") == 1


# Pool


async def test_a_pool_shares_login_and_closes_what_is_idle(server: Standin) -> None:
    now = 0.0
    other = Credentials(token=server.api_key)
    async with ClientPool(idle=100, clock=lambda: now) as pool:
        async with pool.client(server.url, ADMIN) as one, pool.client(server.url.upper() + "/", ADMIN) as same:
            assert one is same
            await asyncio.gather(one.list_artifacts(NAME), same.list_artifacts(NAME))
            now = 500.0
            async with pool.client(server.url, other) as third:
                assert third is not one
            assert len(pool) == 2, "one in use is never closed"
        now = 599.0
        async with pool.client(server.url, ADMIN) as again:
            assert again is one
            await again.list_artifacts(NAME)
        assert server.count(path_prefix="/api/auth/login") == 1
        now = 650.0
        async with pool.client(server.url, other):
            assert len(pool) == 2
        now = 720.0
        async with pool.client(server.url, other):
            assert len(pool) == 1
    assert len(pool) == 0
