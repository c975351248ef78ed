"""kubectl against one kubeconfig, as a user of the project would call it: what it prints, or its error as an exception.

The kubectl is the one in the virtual environment, so that every machine tests with the same.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
COMMAND = Path(sys.executable).parent / "kubectl"  # not resolved: the environment's folder is meant
CALL_WITHIN = 180.0  # seconds; some calls wait for finalizers


class KubectlError(RuntimeError):
    """kubectl ended with another exit code than 0; the message is what it wrote to stderr."""


class NeverHappened(AssertionError):
    """A condition did not come true in time; the message ends with what was seen last."""


def kustomize(directory: Path) -> str:
    """The YAML that a kustomization renders to. Needs no cluster."""
    return _run([str(COMMAND), "kustomize", str(directory)])


@dataclass(frozen=True)
class Kubectl:
    """A cluster. `kubeconfig` names the file that reaches it."""

    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run and return what it printed. Raises KubectlError."""
        return _run([str(COMMAND), f"--kubeconfig={self.kubeconfig}", *arguments], stdin)

    def apply(self, manifest: str | Mapping[str, Any], *options: str) -> str:
        """Server-side apply of YAML text or of one object."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self("apply", "--server-side", "-f", "-", *options, stdin=text)

    def get(self, *what: str) -> Any:
        """One object; None when there is none of the name."""
        text = self("get", "--ignore-not-found", "-o", "json", *what)
        return json.loads(text) if text.strip() else None

    def items(self, *what: str) -> list[Any]:
        """The objects of one or several kinds, none too."""
        found: list[Any] = json.loads(self("get", "-o", "json", *what))["items"]
        return found

    def until(
        self, see: Callable[[], T], good: Callable[[T], bool], *, what: str, within: float, every: float = 0.5
    ) -> T:
        """Look (`see`) until what is seen is `good`, and return it.

        Raises NeverHappened after `within` seconds. A look that fails because the cluster is busy is just another
        look to come; the last failure is in the message.
        """
        deadline = time.monotonic() + within
        while True:
            try:
                seen: T | KubectlError = see()
            except KubectlError as error:
                seen = error
            if not isinstance(seen, KubectlError) and good(seen):
                return seen
            if time.monotonic() > deadline:
                raise NeverHappened(f"not within {within:.0f} s: {what}; seen last: {_shown(seen)}")
            time.sleep(every)


def _run(command: list[str], stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=CALL_WITHIN)
    if done.returncode:
        raise KubectlError(f"{' '.join(command[1:])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _shown(seen: object) -> str:
    text = str(seen) if isinstance(seen, KubectlError) else json.dumps(seen, default=str)
    return text if len(text) < 4000 else f"{text[:4000]}..."
