"""``vidra run``: the operator itself, from its flags to its exit code.

| exit code | means |
|---|---|
| 0 | ended in order, after SIGTERM or SIGINT |
| 1 | something failed; the log's last line says what |
| 2 | settings or kubeconfig can't be used as they are |
| 128 + n | a second signal n, while the first was still being obeyed |
"""

from __future__ import annotations

import os
import signal
import traceback
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vidra.options import OPTIONS

if TYPE_CHECKING:
    from vidra.config import Settings

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _option(name: str) -> Any:
    option = OPTIONS[name]
    return typer.Option("/".join(option.flags), help=option.help, metavar=option.metavar or None, show_default=False)


def run(
    ctx: typer.Context,
    kubeconfig: Annotated[str | None, _option("kubeconfig")] = None,
    context: Annotated[str | None, _option("context")] = None,
    namespace: Annotated[str | None, _option("namespace")] = None,
    secrets_namespace: Annotated[str | None, _option("secrets_namespace")] = None,
    allow_in_kubeconfig: Annotated[str | None, _option("allow_in_kubeconfig")] = None,
    default_service_account: Annotated[str | None, _option("default_service_account")] = None,
    leader_elect: Annotated[bool | None, _option("leader_elect")] = None,
    workers_sync: Annotated[str | None, _option("workers_sync")] = None,
    workers_resource: Annotated[str | None, _option("workers_resource")] = None,
    bind_address: Annotated[str | None, _option("bind_address")] = None,
    health_port: Annotated[str | None, _option("health_port")] = None,
    metrics_port: Annotated[str | None, _option("metrics_port")] = None,
    log_level: Annotated[str | None, _option("log_level")] = None,
    log_format: Annotated[str | None, _option("log_format")] = None,
    grace: Annotated[str | None, _option("grace")] = None,
    requeue_sync_after: Annotated[str | None, _option("requeue_sync_after")] = None,
    requeue_resources_after: Annotated[str | None, _option("requeue_resources_after")] = None,
    query_name: Annotated[str | None, _option("query_name")] = None,
    event_based_reconcile: Annotated[bool | None, _option("event_based_reconcile")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Run the operator until SIGTERM or SIGINT.

    A flag wins over the environment variable in brackets, that over the default. Where * stands, the labelled ConfigMap
    wins over all three. Durations are like 30s, 1m30s or 1h.
    """
    from vidra.config import Settings, SettingsError

    try:
        settings = Settings.load({name: ctx.params[name] for name in OPTIONS}, os.environ)
    except SettingsError as error:
        _refuse(error, debug=debug)

    import asyncio

    from vidra.kube.errors import ConfigError
    from vidra.logging import configure

    configure(level=settings.log_level, log_format=settings.log_format)
    code = 0
    try:
        asyncio.run(_run_until_told(settings))
    except ConfigError as error:
        _refuse(error, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last one to see it: it goes where all else was logged
        import structlog

        structlog.get_logger(__name__).critical("vidra failed", error=str(error), exc_info=error)
        code = 1
    raise typer.Exit(code)


async def _run_until_told(settings: Settings) -> None:
    """Runs the operator until it ends. The first signal cancels it, a second one ends the process where it stands."""
    import asyncio

    import structlog

    loop = asyncio.get_running_loop()
    operator = asyncio.current_task()
    assert operator is not None
    told = False

    def end_in_order(number: signal.Signals) -> None:
        nonlocal told
        told = True
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            # A handler, not the default action: the kernel spares process 1, which we are in a container, from that.
            signal.signal(each, _end_at_once)
        structlog.get_logger(__name__).info("stopping", signal=number.name, grace=settings.grace)
        operator.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end_in_order, number)

    # After the handlers: this import takes a second or two, and a signal meanwhile must not be lost.
    from vidra.operator import run as run_operator

    try:
        await run_operator(settings)
    except asyncio.CancelledError:
        if not told:
            raise


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _refuse(error: Exception, *, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    typer.echo(f"vidra: {error}", err=True)
    raise typer.Exit(2)
