from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType

import pytest
import structlog
from typer.testing import CliRunner, Result

from vidra import __version__
from vidra.cli import app
from vidra.config import Settings
from vidra.kube.errors import ConfigError
from vidra.options import OPTIONS

Operator = Callable[[Settings], Awaitable[None]]


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("VIDRA_") or name in {"POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"}:
            monkeypatch.delenv(name)
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers, root.level
    yield
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level
    structlog.configure(**config)
    for number, handler in signals.items():
        signal.signal(number, handler)


@pytest.fixture
def vidra(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def invoke(*arguments: str, operator: Operator | None = None) -> Result:
        module = ModuleType("vidra.operator")
        module.run = operator  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "vidra.operator", module)
        return CliRunner().invoke(app, arguments)

    return invoke


def test_run_hands_the_settings_to_the_operator_and_its_orderly_end_is_exit_code_0(
    vidra: Callable[..., Result],
) -> None:
    seen: list[Settings] = []

    async def operator(settings: Settings) -> None:
        seen.append(settings)

    arguments = ["--workers-sync", "2", "--grace", "1m", "--event-based-reconcile", "--kubeconfig", "file"]
    assert vidra("run", *arguments, operator=operator).exit_code == 0
    assert (seen[0].workers_sync, seen[0].grace, seen[0].event_based_reconcile) == (2, 60.0, True)
    assert str(seen[0].kubeconfig) == "file"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_the_operator_once_and_it_ends_in_order(
    vidra: Callable[..., Result], number: signal.Signals
) -> None:
    cleaned_up = []

    async def operator(settings: Settings) -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned_up.append(True)
            raise

    result = vidra("run", "--log-format", "json", operator=operator)
    assert result.exit_code == 0
    assert cleaned_up == [True]
    assert number.name in result.stderr


def test_a_second_signal_ends_the_process_at_once(
    vidra: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)

    async def operator(settings: Settings) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(Ended, match="130"):
        vidra("run", operator=operator)


def test_wrong_settings_are_one_line_and_exit_code_2(vidra: Callable[..., Result]) -> None:
    result = vidra("run", "--workers-sync", "many")
    assert result.exit_code == 2
    assert result.stderr.startswith("vidra: --workers-sync (or VIDRA_WORKERS_SYNC): ")
    assert result.stderr.count("\n") == 1


def test_an_unusable_kubeconfig_is_one_line_and_exit_code_2(vidra: Callable[..., Result]) -> None:
    async def operator(settings: Settings) -> None:
        raise ConfigError("kubeconfig /x can't be used: no such file")

    result = vidra("run", operator=operator)
    assert result.exit_code == 2
    assert result.stderr == "vidra: kubeconfig /x can't be used: no such file\n"


def test_debug_shows_where_it_came_from(vidra: Callable[..., Result]) -> None:
    result = vidra("run", "--workers-sync", "many", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_a_crash_is_logged_and_exit_code_1(vidra: Callable[..., Result]) -> None:
    async def operator(settings: Settings) -> None:
        raise RuntimeError("a part ended")

    result = vidra("run", "--log-format", "json", operator=operator)
    assert result.exit_code == 1
    assert '"level": "critical"' in result.stderr
    assert "RuntimeError: a part ended" in result.stderr


def test_help_names_every_flag_and_variable(vidra: Callable[..., Result]) -> None:
    text = "".join(vidra("run", "--help").stdout.split())
    for option in OPTIONS.values():
        assert all(word in text for word in (*option.flags, *option.variables))


def test_version_prints_the_version(vidra: Callable[..., Result]) -> None:
    assert vidra("version").stdout == f"{__version__}\n"


#: Not pydantic: typer itself takes it along as soon as a command has parameters.
HEAVY = {"aiohttp", "asyncio", "kubernetes_asyncio", "prometheus_client", "rich", "structlog", "tenacity", "yaml"}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["version"]], ids=" ".join)
def test_what_only_prints_words_loads_nothing_heavy(arguments: list[str]) -> None:
    """It keeps such commands well under half a second; the operator's own imports take longer than that."""
    code = f"import sys\nfrom vidra.cli import app\napp({arguments}, standalone_mode=False)\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "vidra.cli.run" in loaded
    assert HEAVY & set(loaded) == set()
    assert "vidra.config" not in loaded
