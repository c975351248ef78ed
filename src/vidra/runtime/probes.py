"""Says over HTTP whether the process lives, whether it is ready, and what it counted.

What it promises:

- /healthz and /readyz answer 200 while every check of theirs is fine, else 503 with a line per check (``?verbose``
  gives the lines in any case). A check that raises is not fine. /metrics has the registry, in the format asked for.
- It answers as soon as :attr:`ProbeServer.started` is set, whatever else still starts: nothing here waits for a cache.
- Liveness always includes the event loop's own heartbeat. A loop that is blocked can't answer at all, which is the
  probe's time-out; the heartbeat shows a loop that answers now and then but doesn't keep its timers.
- Checks run on the event loop and must be quick: they look at values, they ask nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

#: Seconds between two heartbeats, and how old the last one may be.
BEAT: Final = 1.0
BEAT_LIMIT: Final = 15.0
#: Seconds in which requests under way may end when the server stops.
SHUTDOWN_TIMEOUT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """``look`` returns None when all is fine, else what is wrong, in one line. ``note`` is for what people should see
    though nothing is wrong: that this process is a standby."""

    name: str
    look: Callable[[], str | None]
    note: Callable[[], str] | None = None


class ProbeServer:
    """Serves on ``host`` (None: all addresses) and ``port`` (0: a free one, see :attr:`port`).

    ``live`` and ``ready`` None leave out both probes, ``registry`` None leaves out the metrics: their paths are 404.
    """

    def __init__(
        self,
        *,
        host: str | None,
        port: int,
        live: Sequence[Check] | None = None,
        ready: Sequence[Check] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._live = live
        self._ready = ready
        self._registry = registry
        self._last_beat = 0.0
        #: Set while the server answers.
        self.started = asyncio.Event()

    @property
    def port(self) -> int:
        """The port it listens on, once it is started."""
        return self._port

    async def run(self) -> None:
        """Serves until it is cancelled. Raises OSError when the address can't be had."""
        app = web.Application()
        if self._live is not None:
            app.router.add_get("/healthz", self._healthz)
        if self._ready is not None:
            app.router.add_get("/readyz", self._readyz)
        if self._registry is not None:
            app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_TIMEOUT)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, backlog=64).start()
            self._port = runner.addresses[0][1]
            self._last_beat = _now()
            self.started.set()
            while True:
                await asyncio.sleep(BEAT)
                self._last_beat = _now()
        finally:
            self.started.clear()
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(request, (Check("event-loop", self._heartbeat), *(self._live or ())))

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(request, self._ready or ())

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._registry is not None
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    def _heartbeat(self) -> str | None:
        age = _now() - self._last_beat
        return f"the event loop's last heartbeat was {age:.0f} s ago" if age > BEAT_LIMIT else None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _answer(request: web.Request, checks: Iterable[Check]) -> web.Response:
    results = [(check, _looked(check)) for check in checks]
    healthy = all(wrong is None for _, wrong in results)
    if healthy and "verbose" not in request.query:
        text = "ok\n"
    else:
        lines = [_fine(check) if wrong is None else f"[-] {check.name}: {wrong}" for check, wrong in results]
        text = "\n".join([*lines, "ok" if healthy else "failed", ""])
    return web.Response(text=text, status=200 if healthy else 503, headers={"Cache-Control": "no-store"})


def _fine(check: Check) -> str:
    return f"[+] {check.name}: ok" + (f" ({check.note()})" if check.note is not None else "")


def _looked(check: Check) -> str | None:
    try:
        return check.look()
    except Exception as error:  # noqa: BLE001 - whatever keeps a check from answering, the answer can't be "fine"
        return f"the check itself failed: {error!r}"
