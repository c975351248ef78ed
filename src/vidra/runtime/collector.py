"""Keeps Python's cycle collector away from the caches.

A full collection looks at every container of the process, and nothing else runs meanwhile: 200 to 280 ms with 5000
pods in a store (measured, Python 3.11), three times while they come in. What comes in are trees of JSON, which hold no
cycles: they go when nobody refers to them any more, and looking at them is for nothing.

So no full collection starts while a list is taken in, and what is there at its end is never looked at again. Younger
garbage is collected as always. The price: what was cyclic garbage in that moment and had survived two collections
stays, a few kilobytes per list. And what is part of a cycle then stays when it is dropped later, with all it holds: so
whoever holds a cache ends its cycles by itself (:meth:`vidra.runtime.informer.Informer.run` does).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1 << 30
_under_way = 0
_thresholds = gc.get_threshold()


@contextmanager
def no_full_collection() -> Iterator[None]:
    """While a list is taken in; several at once are fine."""
    global _under_way, _thresholds
    if _under_way == 0:
        _thresholds = gc.get_threshold()
        gc.set_threshold(_thresholds[0], _thresholds[1], _NEVER)
    _under_way += 1
    try:
        yield
    finally:
        _under_way -= 1
        if _under_way == 0:
            gc.set_threshold(*_thresholds)
            gc.collect(1)
            gc.freeze()
