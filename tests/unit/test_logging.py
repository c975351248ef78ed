from __future__ import annotations

import io
import json
import logging
import re
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
import yaml

from vidra.logging import MASK, configure, mask_text

SECRET = "hunter2-Zm9v"


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers, root.level
    names = ("vidra", "kubernetes_asyncio.client.rest")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.configure(**config)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def to_json(level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    configure(level=level, log_format="json", stream=stream)
    return stream


def test_our_lines_and_those_of_libraries_look_alike() -> None:
    stream = to_json()
    structlog.get_logger("vidra.here").info("reconciled", duration=0.5)
    logging.getLogger("aiohttp.client").warning("slow: %d ms", 7)
    ours, theirs = logged(stream)
    assert list(ours) == ["time", "level", "msg", "duration", "logger"]
    assert (ours["level"], ours["msg"], ours["logger"]) == ("info", "reconciled", "vidra.here")
    assert (theirs["level"], theirs["msg"], theirs["logger"]) == ("warning", "slow: 7 ms", "aiohttp.client")
    assert set(theirs) == {"time", "level", "msg", "logger"}


def test_times_are_rfc_3339_in_utc() -> None:
    stream = to_json()
    structlog.get_logger("vidra").info("now")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", logged(stream)[0]["time"])


def test_context_variables_are_in_the_lines_of_libraries_too() -> None:
    stream = to_json()
    with structlog.contextvars.bound_contextvars(controller="sync", key="web", reconcile_id="1a2b3c4d"):
        structlog.get_logger("vidra").info("ours")
        logging.getLogger("asyncio").error("theirs")
    structlog.get_logger("vidra").info("after")
    ours, theirs, after = logged(stream)
    assert ours["reconcile_id"] == theirs["reconcile_id"] == "1a2b3c4d"
    assert (theirs["controller"], theirs["key"]) == ("sync", "web")
    assert "reconcile_id" not in after


def test_an_error_comes_with_its_traceback_in_one_line_without_local_variables() -> None:
    stream = to_json()

    def fails() -> None:
        local_password = SECRET  # noqa: F841 - what must not be shown
        raise ValueError("broken")

    try:
        fails()
    except ValueError as error:
        structlog.get_logger("vidra").error("failed", exc_info=error)
    (line,) = logged(stream)
    assert "ValueError: broken" in line["exception"]
    assert "in fails" in line["exception"]
    assert stream.getvalue().count(SECRET) == stream.getvalue().count(f"local_password = {SECRET!r}") == 0


def test_debug_is_for_our_own_loggers_only() -> None:
    stream = to_json("debug")
    structlog.get_logger("vidra.here").debug("ours")
    logging.getLogger("aiohttp").debug("theirs")
    assert [line["msg"] for line in logged(stream)] == ["ours"]


def test_lines_below_the_level_are_dropped_ours_and_theirs() -> None:
    stream = to_json("warning")
    structlog.get_logger("vidra").info("ours")
    logging.getLogger("vidra.std").info("ours too")
    logging.getLogger("aiohttp").info("theirs")
    assert stream.getvalue() == ""


def test_warnings_are_logged() -> None:
    stream = to_json()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "DeprecationWarning: old way" in logged(stream)[0]["msg"]


def test_configuring_twice_writes_each_line_once_and_to_the_new_place() -> None:
    first, second = to_json(), to_json()
    logging.getLogger("aiohttp").info("once")
    assert first.getvalue() == ""
    assert len(logged(second)) == 1


def test_auto_is_text_on_a_terminal_and_json_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        configure(log_format="auto", stream=stream)
        structlog.get_logger("vidra").info("reconciled", key="web")
    assert "\x1b[" in terminal.getvalue()
    assert logged(pipe)[0]["key"] == "web"


def test_text_has_no_colours_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    configure(log_format="console", stream=terminal)
    structlog.get_logger("vidra").info("reconciled", key="web")
    assert "\x1b[" not in terminal.getvalue()
    assert "key=web" in terminal.getvalue()


# -- secrets --------------------------------------------------------------------------------------------------------


@pytest.mark.case("U19")
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_u19_no_secret_is_logged_at_level_debug_though_a_secret_is_applied_and_refused(log_format: str) -> None:
    """U19, the part of logging: whatever our code or a library logs of a Secret, of a login or of a failed apply."""
    stream = io.StringIO()
    configure(level="debug", log_format=log_format, stream=stream)
    log = structlog.get_logger("vidra.deploy")
    body = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"any": SECRET}, "data": {"x": SECRET}}
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: %s", json.dumps(body))
    log.debug("applying", object=body, desired=[body])
    log.debug(f"applying {body}")
    for text in (json.dumps(body), json.dumps({"annotation": json.dumps(body)}), yaml.safe_dump({"items": [body]})):
        log.debug(f"sending {text}")
    log.debug("request", headers={"Authorization": f"Bearer {SECRET}", "X-INFRAHUB-KEY": SECRET})
    log.debug("login", token=SECRET, access_token=SECRET, kubeconfig=SECRET, raw=SECRET.encode())
    logging.getLogger("aiohttp").warning("to http://admin:%s@infrahub:8000/api failed", SECRET)
    try:
        raise ValueError(f"401 with Authorization: Bearer {SECRET}")
    except ValueError as error:
        log.error("apply failed", error=error, exc_info=error)
    text = stream.getvalue()
    assert "apply failed" in text
    assert "response body" not in text
    assert SECRET not in text


def test_a_debug_level_of_the_root_logger_does_not_bring_response_bodies_back() -> None:
    stream = to_json("debug")
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: %s", SECRET)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "accessToken",
        "refresh_token",
        "password",
        "Authorization",
        "client-secret",
        "data",
        "stringData",
        "kubeconfig",
        "X-INFRAHUB-KEY",
        "api_key",
        "client-key-data",
        "Set-Cookie",
        "privateKey",
    ],
)
def test_values_under_telling_names_are_masked_at_any_depth(name: str) -> None:
    stream = to_json()
    structlog.get_logger("vidra").info("x", **{name: {"a": [SECRET]}}, outer=[{"inner": {name: SECRET}}])
    (line,) = logged(stream)
    assert line[name] == MASK
    assert line["outer"] == [{"inner": {name: MASK}}]


def test_names_that_only_resemble_are_left_alone() -> None:
    stream = to_json()
    structlog.get_logger("vidra").info("x", secrets_namespace="a", token_expires_in=3, secret=None, password=False)
    (line,) = logged(stream)
    assert (line["secrets_namespace"], line["token_expires_in"]) == ("a", 3)
    assert line["secret"] is None
    assert line["password"] is False


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"Authorization: Bearer {SECRET}", f"Authorization: Bearer {MASK}"),
        (f"authorization=Basic {SECRET}==", f"authorization=Basic {MASK}"),
        (f"{{'Authorization': '{SECRET}'}}", f"{{'Authorization': '{MASK}'}}"),
        (f"sent bearer {SECRET}.", f"sent bearer {MASK}"),
        (f"https://u:{SECRET}@host:8/p", f"https://{MASK}@host:8/p"),
        (f"https://u:p@{SECRET}@host/p", f"https://{MASK}@host/p"),
        (f"GET /x?token={SECRET}&a=1", f"GET /x?token={MASK}&a=1"),
        (f"password='{SECRET} two' next", f"password={MASK} next"),
        (f'{{"clientSecret": "{SECRET}\\" two", "a": 1}}', f'{{"clientSecret": {MASK}, "a": 1}}'),
        (f'{{"data":{{"a":"{SECRET}"}},"kind":"Secret"}}', f'{{"data":{MASK},"kind":"Secret"}}'),
        (f'{{"data":{{"a":"{{{SECRET}","b":"{SECRET}"}},"a":1}}', f'{{"data":{MASK},"a":1}}'),
        (f'{{"token": {{"a": {{"b": ["{SECRET}"]}}}}, "a": 1}}', f'{{"token": {MASK}, "a": 1}}'),
        (f'{{"data":{{"a":"{SECRET} cut of', f'{{"data":{MASK}'),
        (f'"{{\\"password\\":\\"{SECRET} two\\",\\"a\\":1}}"', f'"{{\\"password\\":{MASK},\\"a\\":1}}"'),
        (f"  stringData:\n    x: |\n      {SECRET}\n  kind: Secret", f"  stringData:\n{MASK}  kind: Secret"),
        (f"items:\n- data:\n    x: {SECRET}\nkind: List", f"items:\n- data:\n{MASK}kind: List"),
        (f"applying data:\n  x: {SECRET}\nkind: Secret", f"applying data:\n{MASK}kind: Secret"),
        (f"spec:\n- password: {SECRET} two\n  name: x", f"spec:\n- password: {MASK}\n  name: x"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----\nx", f"{MASK}\nx"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln is it", f"{MASK} is it"),
    ],
)
def test_what_looks_like_a_secret_is_masked_within_texts(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 401: invalid bearer token",
        "Bearer authentication is off",
        "token: expired an hour ago",
        "the Secret vidra-system/creds has neither token nor password",
        "login at http://infrahub:8000: HTTP 401: Incorrect password",
        "data: 3 keys changed, mail a@b.example, see https://host/x",
        'ConfigMap "data" is fine, Secret "token" not found',
    ],
)
def test_ordinary_messages_stay_readable(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "part", ["a.", "a-", "token", '"token', '{"data":{', "eyJaaaaaaaa-", "://", "[{'", "\n  data:\n"]
)
def test_a_long_text_takes_no_long_time_to_mask(part: str) -> None:
    started = time.process_time()
    mask_text(part * (20_000 // len(part)))
    assert time.process_time() - started < 1


def test_a_value_nested_without_end_is_cut_off() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    stream = to_json()
    structlog.get_logger("vidra").info("x", value=endless)
    assert "..." in stream.getvalue()
