"""Sessions over a wire that breaks, and servers that refuse: what is tried again, and what is the caller's."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException
from tests.integration.kube_support import refused, until
from tests.scripted.server import Connection, Request, loader_for, scripted_server

from vidra.kube import config
from vidra.kube import session as session_module
from vidra.kube.client import Client
from vidra.kube.errors import ConfigError, InvalidAnswer, Unreachable
from vidra.kube.resource import Resource
from vidra.kube.session import Session

THINGS = Resource("example", "v1", "Thing", "things", namespaced=True)


async def test_a_bound_on_requests_in_flight_is_kept() -> None:
    flying, most = 0, 0

    async def slow(request: Request, connection: Connection) -> None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.02)
        flying -= 1
        await connection.answer(200, {})

    async with scripted_server(slow) as url, Session(loader_for(url), max_in_flight=4) as session:
        await asyncio.gather(*(Client(session).get(THINGS, "a", "n") for _ in range(20)))
    assert most == 4


async def test_a_cancelled_request_gives_its_place_back() -> None:
    hanging = 0

    async def hangs(request: Request, connection: Connection) -> None:
        nonlocal hanging
        if request.path.endswith("/hangs"):
            hanging += 1
            await connection.hang()
        await connection.answer(200, {})

    def reached(number: int) -> bool:
        return hanging == number

    async with scripted_server(hangs) as url, Session(loader_for(url), max_in_flight=1) as session:
        client = Client(session)
        for number in range(1, 6):
            task = asyncio.create_task(client.get(THINGS, "hangs", "n"))
            await until(partial(reached, number))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert await asyncio.wait_for(client.get(THINGS, "a", "n"), 5) == {}


@pytest.mark.case("R03")
async def test_r03_a_token_that_was_replaced_is_read_again_by_one_401(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "RELOAD_PAUSE", 0.0)
    token, answers = "old", []

    async def guarded(request: Request, connection: Connection) -> None:
        good = request.headers.get("authorization") == f"Bearer {token}"
        answers.append(200 if good else 401)
        await connection.answer(answers[-1], {})

    async with scripted_server(guarded) as url, Session(loader_for(url, lambda: token)) as session:
        client = Client(session)
        await client.get(THINGS, "a", "n")
        token = "new"
        await client.get(THINGS, "a", "n")
        await client.get(THINGS, "a", "n")
        assert answers == [200, 401, 200, 200]


async def test_credentials_that_stay_wrong_are_an_error_after_one_more_try() -> None:
    requests = 0

    async def guarded(request: Request, connection: Connection) -> None:
        nonlocal requests
        requests += 1
        await connection.answer(401, {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "who?"})

    async with scripted_server(guarded) as url, Session(loader_for(url, lambda: "secret-token")) as session:
        error = await refused(Client(session).get(THINGS, "a", "n"))
    assert (error.status, requests) == (401, 2)
    assert "secret-token" not in repr(error)


@pytest.mark.parametrize("fault", ["cut", "mute", "nobody"])
async def test_a_server_that_does_not_answer_is_unreachable_in_time(fault: str) -> None:
    async def script(request: Request, connection: Connection) -> None:
        if fault == "mute":
            await connection.hang()
        connection.cut()

    async with scripted_server(script) as url:
        target = "http://127.0.0.1:1" if fault == "nobody" else url
        async with Session(loader_for(target), timeout=0.3) as session:
            with pytest.raises(Unreachable, match="GET /apis/example/v1/namespaces/n/things/a"):
                await asyncio.wait_for(Client(session).get(THINGS, "a", "n"), 5)


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    asked: list[str] = []

    async def elsewhere(request: Request, connection: Connection) -> None:
        asked.append(request.path)
        await connection.answer(307, b"", Location="/stolen")

    async with scripted_server(elsewhere) as url, Session(loader_for(url, lambda: "t")) as session:
        assert (await refused(Client(session).get(THINGS, "a", "n"))).status == 307
    assert asked == ["/apis/example/v1/namespaces/n/things/a"]


async def test_a_page_with_200_is_no_answer_of_an_api_server() -> None:
    async def page(request: Request, connection: Connection) -> None:
        await connection.answer(200, b"<html>login</html>", content_type="text/html")

    async with scripted_server(page) as url, Session(loader_for(url)) as session:
        with pytest.raises(InvalidAnswer, match="not JSON"):
            await Client(session).get(THINGS, "a", "n")


async def test_a_kubeconfig_of_another_shape_is_a_config_error_without_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "config"
    for text in ("", "[]", "a: b", "users: [{name: x, user: {token: SECRET", "clusters: SECRET\nusers: 3"):
        file.write_text(text)
        with pytest.raises(ConfigError) as error:
            async with Session(config.loader(file)):
                raise AssertionError
        assert str(file) in str(error.value)
        assert "SECRET" not in str(error.value)


class TokenFile:
    """A pod's credentials: the library reads the token's file from time to time, whenever it is asked for headers."""

    def __init__(self, url: str, token: str | Exception) -> None:
        self.url = url
        self.token = token

    async def load(self) -> Configuration:
        configuration = Configuration()
        configuration.host = self.url

        def read(configuration: Configuration) -> None:
            if isinstance(self.token, Exception):
                raise self.token
            configuration.api_key["BearerToken"] = f"Bearer {self.token}"

        configuration.api_key = {"BearerToken": "Bearer first"}
        configuration.refresh_api_key_hook = read
        return configuration


@pytest.mark.case("R03")
@pytest.mark.parametrize("broken", [ConfigException("Token file exists but empty."), OSError("gone"), "SEC\nRET"])
async def test_r03_a_token_that_cannot_be_read_or_sent_is_a_config_error_and_passes(broken: str | Exception) -> None:
    tokens: list[str] = []

    async def note(request: Request, connection: Connection) -> None:
        tokens.append(request.headers["authorization"])
        await connection.answer(200, {})

    async with scripted_server(note) as url:
        file = TokenFile(url, "good\n")
        async with Session(file.load) as session:
            await Client(session).get(THINGS, "a", "n")
            file.token = broken
            for _ in range(5):
                with pytest.raises(ConfigError) as error:
                    await Client(session).get(THINGS, "a", "n")
                assert "SEC" not in str(error.value)
            file.token = "new"
            await Client(session).get(THINGS, "a", "n")
    assert tokens == ["Bearer good", "Bearer new"]


@pytest.mark.parametrize("field", ["certificate-authority-data", "client-certificate-data", "client-key-data"])
async def test_certificates_that_are_none_are_a_config_error(tmp_path: Path, field: str) -> None:
    nonsense = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nSECRET\n").decode()
    cluster = {"server": "https://127.0.0.1:1", **({field: nonsense} if "authority" in field else {})}
    user = {"client-certificate-data": nonsense, "client-key-data": nonsense} if field.startswith("client") else {}
    kubeconfig = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(kubeconfig))
    with pytest.raises(ConfigError) as error:
        async with Session(config.loader(file)):
            raise AssertionError
    assert "SECRET" not in str(error.value)


async def test_a_certificate_file_that_is_gone_is_a_config_error(tmp_path: Path) -> None:
    async def load() -> Configuration:
        configuration = Configuration()
        configuration.host = "https://127.0.0.1:1"
        configuration.ssl_ca_cert = str(tmp_path / "gone")
        return configuration

    with pytest.raises(ConfigError, match="gone"):
        async with Session(load):
            raise AssertionError
