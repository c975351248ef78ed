"""The few requests the launcher itself sends to its API server."""

import http.client
import ssl
from pathlib import Path


class Api:
    """HTTPS with a client certificate to one port on loopback; a new connection for each request."""

    def __init__(self, port: int, *, ca: Path, certificate: Path, key: Path) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(ca))
        self._context.load_cert_chain(certificate, key)

    def get(self, path: str, *, user_agent: str = "controlplane", timeout: float = 5.0) -> tuple[int, bytes]:
        """Status code and body. Raises OSError or http.client.HTTPException when there is no answer."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout, context=self._context)
        try:
            connection.request("GET", path, headers={"User-Agent": user_agent})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def answers(self, path: str, *, user_agent: str = "controlplane") -> bool:
        """Whether the path answers 200 now."""
        try:
            return self.get(path, user_agent=user_agent)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
