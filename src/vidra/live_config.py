"""The configuration that may change while the operator runs, from the labelled ConfigMap."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from vidra.config import LiveConfig, choose_config_map, parse_config_map
from vidra.kube.client import Obj

log = structlog.get_logger(__name__)


class ConfigWatcher:
    """``current`` is what holds now. A wrong value keeps the last good one and is logged once.

    ``on_change`` gets what holds from now on, and what held before.
    """

    def __init__(self, base: LiveConfig, on_change: Callable[[LiveConfig, LiveConfig], None]) -> None:
        self.current = base
        self._base = base
        self._on_change = on_change
        self._told: tuple[str, ...] = ()

    def look(self, config_maps: Iterable[Obj]) -> None:
        """Takes in all ConfigMaps that carry the label, as they are now."""
        chosen, problems = choose_config_map(config_maps)
        new, wrong = parse_config_map(chosen.get("data") if chosen else None, self.current, self._base)
        problems += wrong
        if problems and problems != self._told:
            log.warning("configuration has problems", problems=list(problems))
        self._told = problems
        if new != self.current:
            log.info("configuration changed", **{name: getattr(new, name) for name in new.__slots__})
            old, self.current = self.current, new
            self._on_change(new, old)
