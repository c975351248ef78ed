"""Where a reflector can be: one value per state, with what the next step needs to know.

The one way through them::

    Empty --> Streaming --+--> Watching --> Listed --> Watching ...
      |                   |        |           |
      +-----> Listing --> Listed   +-----------+--> Empty      (the version is gone, or the server refuses)

Streaming is WatchList (R3): the objects come one by one on the watch itself, which costs the server less than a list
and never puts 500 objects into one piece of JSON. Where it fails, Listing takes its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias

from vidra.kube.watch import WatchEvent


@dataclass(frozen=True, slots=True)
class Empty:
    """A full list is due. ``at_least`` is the version it must not be older than; None asks for the most recent."""

    at_least: str | None


@dataclass(frozen=True, slots=True)
class Streaming:
    at_least: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    at_least: str | None


@dataclass(frozen=True, slots=True)
class Listed:
    """The sink is true as of the last version; a watch from there is due."""


@dataclass(frozen=True, slots=True)
class Watching:
    """An open watch. ``opened`` is the loop's time of its start."""

    connection: AsyncExitStack
    events: AsyncIterator[WatchEvent]
    opened: float


State: TypeAlias = Empty | Streaming | Listing | Listed | Watching
