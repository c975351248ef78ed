"""The transport against small servers with one fault each."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from infrahub import Standin
from vidra.infrahub import ClientPool, Credentials, InfrahubClient, InfrahubError, errors
from vidra.infrahub.errors import Asked
from vidra.infrahub.transport import Transport

TOKEN = Credentials(token="hush-hush")
EMPTY = {"data": {"CoreArtifact": {"count": 0, "edges": []}}}
ASKED = Asked("graphql", "x", "here")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def giving(answer: object) -> Handler:
    async def give(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    return give


async def failure(url: str, **options: float) -> InfrahubError:
    async with InfrahubClient(url, TOKEN, timeout=options.get("timeout", 5)) as client:
        with pytest.raises(InfrahubError) as caught:
            await client.list_artifacts("Web")
    assert "hush" not in caught.value.message
    assert url in caught.value.message
    return caught.value


async def test_a_reset_of_a_kept_connection_is_tried_once_more_on_a_new_one() -> None:
    async with Standin() as server, InfrahubClient(server.url, Credentials(token=server.api_key)) as client:
        await client.list_artifacts("Web")
        server.faults.reset_connection("/graphql", times=1)
        assert await client.list_artifacts("Web") == ()
        assert server.count() == 3
        await client.list_artifacts("Web")
        server.faults.reset_connection("/graphql", times=2)
        with pytest.raises(errors.Unreachable):
            await client.list_artifacts("Web")
        assert server.count() == 6, "once more, not twice"


async def test_a_reset_of_a_new_connection_is_not_tried_again() -> None:
    async with Standin() as server, InfrahubClient(server.url, Credentials(token=server.api_key)) as client:
        server.faults.reset_connection("/graphql", times=1)
        with pytest.raises(errors.Unreachable) as caught:
            await client.list_artifacts("Web")
        assert caught.value.retryable
        assert server.count() == 1


async def test_a_restarted_server_is_reached_though_every_kept_connection_is_dead() -> None:
    async with Standin() as server, InfrahubClient(server.url, Credentials(token=server.api_key)) as client:
        await asyncio.gather(*(client.list_artifacts("Web") for _ in range(8)))
        await server.stop()
        await server.start()
        await asyncio.gather(*(client.list_artifacts("Web") for _ in range(8)))
        await server.stop()
        with pytest.raises(errors.Unreachable):
            await client.list_artifacts("Web")


async def test_the_second_try_takes_no_kept_connection_as_it_may_be_dead_too() -> None:
    met: set[object] = set()
    together = asyncio.Barrier(4)

    async def once_per_connection(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if request.transport in met:
            request.transport.abort()
        elif len(met) < 4:
            met.add(request.transport)
            await together.wait()
        return web.json_response(EMPTY)

    async with serving(once_per_connection) as url, InfrahubClient(url, TOKEN) as client:
        await asyncio.gather(*(client.list_artifacts("Web") for _ in range(4)))
        assert len(met) == 4
        assert await client.list_artifacts("Web") == ()


async def test_a_late_refusal_of_an_old_token_costs_no_login() -> None:
    logins = 0
    both, renewed = asyncio.Barrier(2), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal logins
        if request.path == "/api/auth/login":
            logins += 1
            return web.json_response({"access_token": f"t{logins}"})
        if request.headers["Authorization"] == "Bearer t1":
            # Both are on their way with the first token; one hears of its end long before the other.
            if await both.wait() == 0:
                await renewed.wait()
            return web.json_response({"errors": [{"message": "Expired Signature"}]}, status=401)
        renewed.set()
        return web.json_response(EMPTY)

    async with serving(answer) as url, InfrahubClient(url, Credentials("me", "hush"), timeout=5) as client:
        await asyncio.gather(client.list_artifacts("Web"), client.list_artifacts("Web"))
    assert logins == 2


async def test_no_answer_in_time_is_unreachable() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    for handler in (hang, drip):
        async with serving(handler) as url:
            error = await failure(url, timeout=0.2)
            assert isinstance(error, errors.Unreachable)
            assert error.text == "no answer within 0.2 s"


async def test_a_closed_port_is_unreachable() -> None:
    async with serving(giving(EMPTY)) as url:
        pass
    assert (await failure(url)).reason == "Unreachable"


@pytest.mark.parametrize(
    ("response", "reason", "text"),
    [
        ({"status": 200, "text": "<html><title>Sign in</title>", "content_type": "text/html"}, "InvalidAnswer", "Sign"),
        ({"status": 200, "text": '{"data": {"CoreArt'}, "InvalidAnswer", "no JSON"),
        ({"status": 200, "text": "[]"}, "InvalidAnswer", "a list"),
        ({"status": 200, "text": '{"data": null}'}, "InvalidAnswer", "no data"),
        ({"status": 200, "text": "your key hush-hush"}, "InvalidAnswer", "your key ***"),
        ({"status": 200, "text": '{"errors": [{"message": "key hush-hush"}]}'}, "QueryRefused", "key ***"),
        ({"status": 403, "text": "not with hush-hush"}, "PermissionDenied", "not with ***"),
        ({"status": 301, "headers": {"Location": "https://else.where/?k=hush"}}, "WrongURL", "to https://else.where"),
        ({"status": 503, "text": "<html><title>Busy</title>", "content_type": "text/html"}, "Unavailable", "Busy"),
        ({"status": 500, "text": "x" * 1_000_000}, "ServerError", "xxx"),
    ],
)
async def test_what_is_no_infrahub_is_told_as_it_is(response: dict[str, object], reason: str, text: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(**response)  # type: ignore[arg-type]

    async with serving(answer) as url:
        error = await failure(url)
    assert error.reason == reason
    assert text in error.text


async def test_a_partial_answer_is_never_a_list() -> None:
    partial = {"data": {"CoreArtifact": {"count": 0, "edges": []}}, "errors": [{"message": "lost", "path": ["x"]}]}
    async with serving(giving(partial)) as url:
        assert (await failure(url)).reason == "ServerError"


async def test_retry_after_is_handed_on_and_nothing_is_repeated_here() -> None:
    seen = 0

    async def shed(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        headers = {"Retry-After": "7", "X-Infrahub-Admission": "shed"}
        return web.json_response({"errors": [{"message": "busy"}]}, status=429, headers=headers)

    async with serving(shed) as url:
        error = await failure(url)
    assert (error.reason, error.retry_after, error.retryable, seen) == ("Throttled", 7, True, 1)


async def test_an_endless_answer_is_cut_at_the_limit() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async with serving(flood) as url, Transport(url) as transport:
        with pytest.raises(errors.ContentTooLarge, match="more than the 100000 bytes"):
            await transport.fetch("GET", "/", ASKED, limit=100_000)


async def test_no_cookie_is_kept() -> None:
    cookies: list[object] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        cookies.append(request.headers.get("Cookie"))
        response = web.json_response(EMPTY)
        response.set_cookie("access_token", "somebody")
        return response

    async with serving(answer) as url, InfrahubClient(url, TOKEN) as client:
        await client.list_artifacts("Web")
        await client.list_artifacts("Web")
    assert cookies == [None, None]


async def test_names_reach_the_server_letter_for_letter() -> None:
    targets: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        targets.append(request.raw_path)
        text = {"node": {"query": {"value": "query Q($artifactname: String) { a }"}}}
        return web.json_response({"data": EMPTY["data"] | {"CoreGraphQLQuery": {"edges": [text]}}})

    async with serving(answer) as url, InfrahubClient(url + "/base/", TOKEN) as client:
        await client.list_artifacts("Web", branch="a/b#c+d e", query="q/1?")
    assert targets == [
        "/base/graphql/a%2Fb%23c%2Bd%20e",
        "/base/api/query/q%2F1%3F?update_group=false&branch=a%2Fb%23c%2Bd%20e",
    ]


async def test_requests_in_flight_to_one_server_are_bounded_whoever_asks() -> None:
    flying = most = 0

    async def count(request: web.Request) -> web.StreamResponse:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.01)
        flying -= 1
        return web.json_response(EMPTY)

    async with (
        serving(count) as url,
        ClientPool(max_concurrency=3) as pool,
        pool.client(url, TOKEN) as one,
        pool.client(url, Credentials(token="other")) as other,
    ):
        assert one is not other
        await asyncio.gather(*(client.list_artifacts("Web") for client in (one, other) for _ in range(10)))
    assert most == 3


def self_signed(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server shows, and what a client that trusts it checks with."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "server.pem").write_bytes(secret + pem)
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(folder / "server.pem")
    return shown, ssl.create_default_context(cadata=pem.decode())


async def test_a_certificate_is_checked_against_the_given_authorities(tmp_path: Path) -> None:
    shown, trusting = self_signed(tmp_path)
    async with serving(giving(EMPTY), tls=shown) as url:
        error = await failure(url)
        assert (error.reason, error.retryable) == ("CertificateRefused", False)
        assert "self-signed" in error.text
        async with InfrahubClient(url, TOKEN, ssl=trusting) as client:
            assert await client.list_artifacts("Web") == ()
