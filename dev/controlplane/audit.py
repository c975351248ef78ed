"""The API server's audit log, read so that requests can be counted.

What holds: each request is counted exactly once. A request that runs long (a watch, an exec) is counted when it
begins, every other one when it is answered. The API server writes the line from within the request (mode `blocking`),
before the last bytes of an answer of up to 4 kB leave; of a longer answer the client may see all a moment before the
line is written. So `mark`, `entries` and `count` first send a request of their own and wait for its line, after which
every request answered before the call is in the log. These own requests are never shown. While the API server is
down no request is sent: nothing can be on its way then.
"""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NewType

FLUSH_AGENT = "controlplane-flush/"
FLUSH_WITHIN = 10.0  # seconds

Mark = NewType("Mark", int)
"""A place in the log; what was answered before it is left out by `since`."""


@dataclass(frozen=True)
class Entry:
    """One request. Fields that a request doesn't have (a non-resource path, no answer yet) are empty or 0."""

    verb: str
    user: str
    user_agent: str
    uri: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    groups: tuple[str, ...]

    @classmethod
    def parse(cls, event: dict[str, Any]) -> "Entry":
        """An entry from one parsed line (audit.k8s.io/v1 Event)."""
        target = event.get("objectRef") or {}
        user = event.get("impersonatedUser") or event.get("user") or {}
        return cls(
            verb=event.get("verb", ""),
            user=user.get("username", ""),
            user_agent=event.get("userAgent", ""),
            uri=event.get("requestURI", ""),
            group=target.get("apiGroup", ""),
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=(event.get("responseStatus") or {}).get("code", 0),
            groups=tuple(user.get("groups") or ()),
        )


def reader(path: Path) -> Callable[[int], bytes]:
    """Reads a file from an offset to its end; a file that isn't there yet is empty."""

    def read(offset: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read()
        except FileNotFoundError:
            return b""

    return read


class AuditLog:
    """Reads the log as it grows.

    `read` gives all bytes from an offset on; `send` sends one request with the given user agent, and says whether it
    was answered.
    """

    def __init__(self, read: Callable[[int], bytes], send: Callable[[str], bool]) -> None:
        self._read_from = read
        self._send = send
        self._offset = 0
        self._running: set[str] = set()
        self._entries: list[Entry] = []
        self._flushed: set[str] = set()

    def mark(self) -> Mark:
        """The place after every request answered so far."""
        self.flush()
        return Mark(len(self._entries))

    def entries(
        self,
        *,
        since: Mark | None = None,
        user: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        user_agent_prefix: str | None = None,
    ) -> list[Entry]:
        """The requests answered before this call that match all that is given, in the log's order.

        `user` is whom the request acted as (the impersonated user, if any). `resource` is the plural without group;
        with it, `subresource=""` leaves out requests to `status` and the like.
        """
        self.flush()
        wanted = {"user": user, "verb": verb, "resource": resource, "subresource": subresource}
        exact = [(key, value) for key, value in wanted.items() if value is not None]
        return [
            entry
            for entry in self._entries[since or 0 :]
            if all(getattr(entry, key) == value for key, value in exact)
            and (user_agent_prefix is None or entry.user_agent.startswith(user_agent_prefix))
        ]

    def count(
        self,
        *,
        since: Mark | None = None,
        user: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        user_agent_prefix: str | None = None,
    ) -> int:
        """How many `entries` there are."""
        return len(
            self.entries(
                since=since,
                user=user,
                verb=verb,
                resource=resource,
                subresource=subresource,
                user_agent_prefix=user_agent_prefix,
            )
        )

    def flush(self) -> None:
        """Wait until every request answered before this call is read. Blocks for a few milliseconds.

        Raises TimeoutError when the API server answers but logs nothing for 10 s.
        """
        agent = f"{FLUSH_AGENT}{uuid.uuid4()}"
        if not self._send(agent):
            self._read()
            return
        deadline = time.monotonic() + FLUSH_WITHIN
        while True:
            self._read()
            if agent in self._flushed:
                self._flushed.clear()
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the audit log shows no request for {FLUSH_WITHIN:.0f} s")
            time.sleep(0.001)

    def _read(self) -> None:
        """Take in the whole lines that were added; a line still being written is left for the next time."""
        added = self._read_from(self._offset)
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        stage, identity = event.get("stage"), event.get("auditID", "")
        if stage == "ResponseStarted":
            self._running.add(identity)
        elif identity in self._running:  # the end of a long request that was counted when it began
            self._running.discard(identity)
            return
        entry = Entry.parse(event)
        if entry.user_agent.startswith(FLUSH_AGENT):
            self._flushed.add(entry.user_agent)
        else:
            self._entries.append(entry)
