"""The source: asks Infrahub which artifacts there are, and fetches what they hold.

:class:`InfrahubClient` lists and downloads, :class:`ClientPool` shares clients, :func:`pin` reads target dates, and
:mod:`vidra.infrahub.errors` has every way it can fail.
"""

from vidra.infrahub.artifacts import ArtifactRef
from vidra.infrahub.at import pin
from vidra.infrahub.auth import Credentials
from vidra.infrahub.client import InfrahubClient
from vidra.infrahub.errors import InfrahubError
from vidra.infrahub.pool import ClientPool

__all__ = ["ArtifactRef", "ClientPool", "Credentials", "InfrahubClient", "InfrahubError", "pin"]
