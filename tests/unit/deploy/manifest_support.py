"""Short ways to read a manifest in a test."""

from __future__ import annotations

from typing import Any

import pytest

from vidra.deploy.manifest import ManifestError, ManifestObject, Problem, read_manifest

HEAD = "apiVersion: example.test/v1\nkind: Thing\nmetadata: {name: a}\n"


def thing(rest: str) -> str:
    """An object of a custom kind; ``rest`` begins on line 4."""
    return HEAD + rest


def config_map(name: str, rest: str = "") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{rest}"


def only(text: str) -> ManifestObject:
    (found,) = read_manifest(text)
    return found


def body(text: str) -> dict[str, Any]:
    return only(text).body


def names(text: str) -> list[str]:
    return [item.name for item in read_manifest(text)]


def problems(text: str) -> tuple[Problem, ...]:
    """What is wrong with a text, which must be something."""
    with pytest.raises(ManifestError) as caught:
        read_manifest(text)
    assert caught.value.problems
    return caught.value.problems


def refusal(text: str) -> str:
    """The one problem of a text, as people read it."""
    (problem,) = problems(text)
    return str(problem)
