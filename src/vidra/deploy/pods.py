"""Pod specs, wherever they stand: in a Pod, a Deployment, a CronJob's job template.

Lists that Kubernetes merges by a key must hold each key once: the API server takes a repeated environment variable on
creation, keeps one of the two, and every apply after that finds the object changed or is refused.
"""

from __future__ import annotations

from typing import Any

from vidra.deploy.problems import short
from vidra.deploy.textmaps import Path, Report, must_be_text, text_list

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def check_pod(node: dict[str, Any], path: Path, report: Report) -> None:
    """Check ``node`` and complete it in place, if it is a pod spec."""
    is_pod = False
    for key in _CONTAINER_LISTS:
        containers = node.get(key)
        if isinstance(containers, list):
            is_pod = True
            for at, container in enumerate(containers):
                if isinstance(container, dict):
                    _container(container, (*path, key, at), report)
    if is_pod:
        unique(node, "imagePullSecrets", ("name",), path, "the pod", report)
        unique(node, "hostAliases", ("ip",), path, "the pod", report)


def default_protocol(owner: dict[str, Any]) -> None:
    """Ports are merged by number and protocol, so the protocol must be there before the server would add it."""
    ports = owner.get("ports")
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict) and port.get("protocol") is None:
            port["protocol"] = "TCP"


def unique(
    owner: dict[str, Any], key: str, merge_keys: tuple[str, ...], path: Path, subject: str, report: Report
) -> None:
    """Report the items of the list ``owner[key]`` that have all their ``merge_keys`` in common with another one."""
    items = owner.get(key)
    seen: set[tuple[Any, ...]] = set()
    for at, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict):
            continue
        identity = tuple(item.get(name) for name in merge_keys)
        if not all(isinstance(part, str | int) for part in identity):
            continue  # the API server has better words for that
        if identity in seen:
            names = " ".join(short(str(part)) for part in identity)
            report((*path, key, at), f"{subject}: {key} has {names} twice")
        seen.add(identity)


def _container(container: dict[str, Any], path: Path, report: Report) -> None:
    name = container.get("name")
    subject = f"container {short(name)}" if isinstance(name, str) else f"container {path[-1]}"
    default_protocol(container)
    unique(container, "ports", ("containerPort", "protocol"), path, subject, report)
    unique(container, "env", ("name",), path, subject, report)
    text_list(container, "command", path, subject, report)
    text_list(container, "args", path, subject, report)
    env = container.get("env")
    for at, variable in enumerate(env if isinstance(env, list) else ()):
        if not isinstance(variable, dict):
            continue
        if isinstance(variable.get("name"), bool | int | float):
            report((*path, "env", at, "name"), f"{subject}: the name of env {at + 1} {must_be_text(variable['name'])}")
        value = variable.get("value", "")
        if value is None:  # as if it weren't there
            del variable["value"]
        elif not isinstance(value, str):
            which = variable.get("name")
            which = short(which) if isinstance(which, str) else str(at + 1)
            report((*path, "env", at, "value"), f"{subject}: the value of env {which} {must_be_text(value)}")
