"""The Infrahub stand-in from outside its process: the artifacts it holds, changed over its control interface."""

import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

ARTIFACT = "E2E_Manifest"
USERNAME = "admin"
PASSWORD = "infrahub"


@dataclass(frozen=True)
class Infrahub:
    """`url` is where it listens, as pods reach it too."""

    url: str

    @property
    def host(self) -> str:
        """What the label of a credentials Secret says: the host, no scheme and no port."""
        host = urllib.parse.urlsplit(self.url).hostname
        assert host is not None
        return host

    def add(self, content: str, *, target: str) -> str:
        """A new artifact on main; returns its id."""
        answer = self._call("POST", "", {"name": ARTIFACT, "content": content, "target": target})
        return str(answer["id"])

    def change(self, artifact: str, content: str) -> None:
        """The artifact is rendered anew."""
        self._call("PUT", f"/{artifact}", {"content": content})

    def remove(self, artifact: str) -> None:
        """The artifact is no more."""
        self._call("DELETE", f"/{artifact}")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/_standin/artifacts{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        # No proxy: what the environment names for the internet doesn't reach this machine's own addresses.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as response:
            text = response.read()
        return json.loads(text) if text else None
