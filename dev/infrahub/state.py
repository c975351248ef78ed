"""What the stand-in holds: artifacts with their whole history, branches, stored objects, stored queries.

Every change is kept with its instant, so a read names a branch and an instant and gets what was true there and then.
A child branch shows its parent as it was when the branch was made, under the same ids, until it changes something.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from infrahub.clock import Clock, instant, new_id

Status = Literal["Pending", "Processing", "Ready", "Error"]
MAIN = "main"
ATTRIBUTES = ("name", "status", "checksum", "storage_id", "content_type", "parameters")


class NoSuchBranchError(LookupError):
    """No branch of this name exists at present."""


@dataclass(frozen=True)
class Node:
    """A node that only lends its id and label: an artifact's target or definition."""

    id: str
    kind: str
    label: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredQuery:
    """A CoreGraphQLQuery; `created` matters to reads of the past."""

    id: str
    name: str
    text: str
    created: datetime


@dataclass
class Branch:
    """A branch; `created` and `branched` differ by microseconds, as on the real server."""

    id: str
    name: str
    created: datetime
    branched: datetime
    status: str = "OPEN"

    @property
    def default(self) -> bool:
        return self.name == MAIN


@dataclass(frozen=True)
class Version:
    """What an artifact was from `at` on, on one branch, until its next version. `gone` means deleted."""

    at: datetime
    status: Status = "Pending"
    checksum: str | None = None
    storage_id: str | None = None
    gone: bool = False


@dataclass
class Artifact:
    """An artifact node with its versions, by branch, oldest first."""

    id: str
    name: str
    content_type: str
    target: Node
    definition: Node
    attribute_ids: dict[str, str]
    created: datetime
    versions: dict[str, list[Version]] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """An artifact as a read sees it: the node and the version true then and there."""

    node: Artifact
    version: Version
    trail: list[Version]

    def changed(self, attribute: str) -> datetime:
        """When the attribute took its present value."""
        at = self.node.created
        for before, after in zip(self.trail, self.trail[1:], strict=False):
            if getattr(before, attribute, None) != getattr(after, attribute, None):
                at = after.at
        return at


class State:
    """The whole of a small Infrahub."""

    def __init__(self, clock: Clock, *, started: datetime | None = None) -> None:
        self.clock = clock
        born = started or clock.now()
        self.deployment_id = new_id(born)
        self.branches: dict[str, Branch] = {MAIN: Branch(new_id(born), MAIN, born, born)}
        self.artifacts: dict[str, Artifact] = {}
        self.queries: dict[str, StoredQuery] = {}
        self.nodes: dict[str, Node] = {}
        self.objects: dict[str, bytes | None] = {}  # None: the file was lost
        self.object_checksums: dict[str, str] = {}

    # -- reading ------------------------------------------------------------------------------------------------

    def branch(self, name: str | None) -> Branch:
        """The branch of this name, the default one for None or the empty name. Raises NoSuchBranchError."""
        try:
            return self.branches[name or MAIN]
        except KeyError:
            raise NoSuchBranchError(name) from None

    def see(self, artifact: Artifact, branch: Branch, at: datetime) -> Seen | None:
        """The artifact on the branch at the instant, or None where it did not exist."""
        trail = [v for v in artifact.versions.get(branch.name, ()) if v.at <= at]
        if not branch.default:
            inherited = [v for v in artifact.versions.get(MAIN, ()) if v.at <= min(at, branch.branched)]
            trail = inherited + trail
        if not trail or trail[-1].gone:
            return None
        return Seen(artifact, trail[-1], trail)

    def all_seen(self, branch: Branch, at: datetime) -> list[Seen]:
        """Every artifact on the branch at the instant, in the server's order: name, then id."""
        seen = (self.see(artifact, branch, at) for artifact in self.artifacts.values())
        return sorted((s for s in seen if s), key=lambda s: (s.node.name, s.node.id))

    # -- writing ------------------------------------------------------------------------------------------------

    def add_node(self, kind: str, label: str, *, node_id: str | None = None, **attributes: Any) -> Node:
        """The node of this kind and label, made when it does not exist."""
        for node in self.nodes.values():
            if (node.kind, node.label) == (kind, label):
                return node
        node = Node(node_id or new_id(self.clock.now()), kind, label, {"name": label, **attributes})
        self.nodes[node.id] = node
        return node

    def add_query(self, name: str, text: str, *, node_id: str | None = None) -> StoredQuery:
        """Store a query; one of the same name is replaced."""
        now = self.clock.now()
        query = StoredQuery(node_id or new_id(now), name, text, now)
        self.queries[name] = query
        return query

    def add_artifact(
        self,
        name: str,
        *,
        target: Node,
        definition: Node,
        content_type: str,
        artifact_id: str | None = None,
        storage_attribute_id: str | None = None,
    ) -> Artifact:
        """A new artifact without any version; `set` gives it one."""
        now = self.clock.now()
        ids = {attribute: new_id(now) for attribute in ATTRIBUTES}
        if storage_attribute_id:
            ids["storage_id"] = storage_attribute_id
        artifact = Artifact(artifact_id or new_id(now), name, content_type, target, definition, ids, now)
        self.artifacts[artifact.id] = artifact
        return artifact

    def set(self, artifact_id: str, branch: str = MAIN, **changes: Any) -> Version:
        """Give the artifact a new version on the branch: its present one there with `changes`."""
        artifact, now = self.artifacts[artifact_id], self.clock.now()
        seen = self.see(artifact, self.branch(branch), now)
        version = replace(seen.version if seen else Version(now), at=now, **changes)
        artifact.versions.setdefault(branch, []).append(version)
        return version

    def render(
        self,
        artifact_id: str,
        content: str | bytes,
        branch: str = MAIN,
        *,
        storage_id: str | None = None,
        status: Status = "Ready",
    ) -> None:
        """What a rendering that came out well does, `status` at its end.

        The same content as before changes nothing, not even a status of Error: the real server has that trap too.
        """
        data = content.encode() if isinstance(content, str) else content
        checksum = hashlib.md5(data).hexdigest()  # what Infrahub's checksum is
        seen = self.see(self.artifacts[artifact_id], self.branch(branch), self.clock.now())
        if seen and seen.version.checksum == checksum:
            return
        stored = self.store(data, storage_id=storage_id)
        self.set(artifact_id, branch, status=status, checksum=checksum, storage_id=stored, gone=False)

    def store(self, data: bytes, *, storage_id: str | None = None) -> str:
        """Keep the bytes for ever under a new storage id."""
        stored = storage_id or new_id(self.clock.now())
        self.objects[stored] = data
        self.object_checksums[stored] = hashlib.md5(data).hexdigest()
        return stored

    def create_branch(self, name: str, *, branch_id: str | None = None, branched: str | None = None) -> Branch:
        """A new branch of main, as main is now."""
        now = self.clock.now()
        branch = Branch(branch_id or new_id(now), name, now, instant(branched) if branched else now)
        self.branches[name] = branch
        return branch

    def delete_branch(self, name: str) -> None:
        """Forget the branch and what was changed on it. Raises NoSuchBranchError."""
        del self.branches[self.branch(name).name]
        for artifact in self.artifacts.values():
            artifact.versions.pop(name, None)
