"""An Infrahub stand-in: a real HTTP server that answers as a recorded Infrahub did, for tests, bench and demo."""

from infrahub.server import Standin

__all__ = ["Standin"]
