"""The stand-in answers as a real Infrahub did: every recorded request is sent again, and the answers compared.

Each recording is replayed against a stand-in of its own whose story has been told up to the moment the recording was
made at. Compared are the status, the headers that mean something, and the body: byte for byte for contents, as JSON
otherwise, with the length where nothing in it was made up for the recording. What can't be the same is written down
here: tokens (recorded as <jwt>), the ids and times of what the request itself makes, one checksum whose content nobody
recorded, and the order of branches, which is the database's whim.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from infrahub import Standin
from infrahub.recorded import LATE, recorded

RECORDINGS = Path(__file__).parent.parent / "recordings"

NOT_OFFERED = {
    "account-token-create": "the stand-in's API keys are settings, not nodes",
    "branch-merge": "Vidra never merges; a merged branch is part of the recorded story",
    "branch-merge-conflict": "Vidra never merges",
    "graphql-mutation-on-merged-branch": "target nodes can't be edited: the stand-in renders nothing",
    "auth-token-claims": "no request; test_infrahub_auth.py holds tokens to it",
}

# When each recording was made: the start of its name, and what the clock said. The longest that fits is taken.
MOMENTS = {
    "": "04:11:12.514573Z",
    "graphql-artifact-pending": "04:11:25.000000Z",
    "artifact-pending-get": "04:11:25.000000Z",
    "artifact-deleted-get": "04:11:55.000000Z",
    "artifact-after-update": "04:12:02.000000Z",
    "artifact-no-permission": "04:12:02.000000Z",
    "artifact-time-travel": "04:12:02.000000Z",
    "storage-no-permission": "04:12:02.000000Z",
    "storage-old-object": "04:12:02.000000Z",
    "artifact-main-id-on-branch": "04:12:35.000000Z",
    "branch-list": "04:12:35.000000Z",
    "graphql-branch-slash": "04:12:35.000000Z",
    "query-stored-branch-slash": "04:12:35.000000Z",
    "artifact-on-branch": "04:12:45.000000Z",
    "artifact-of-deleted-target": "04:12:55.000000Z",
    "storage-of-deleted-artifact": "04:12:55.000000Z",
    "artifact-branch-id-on-main": "04:13:30.000000Z",
    "artifact-error-get": "04:13:45.000000Z",
    "graphql-artifact-error": "04:13:45.000000Z",
    "artifact-stale-removed": "04:14:35.000000Z",
    "branch-delete": "04:16:10.000000Z",
    "branch-list-after-merge": "04:16:10.000000Z",
    "query-stored-merged-branch": "04:16:10.000000Z",
    "artifact-deleted-branch": "04:17:10.000000Z",
    "graphql-deleted-branch": "04:17:10.000000Z",
    "perm-": "04:18:50.000000Z",
}
APP5 = "18ed05ca-3369-71fe-e3e2-13e3d548579b"


def _no_anonymous(standin: Standin) -> None:
    standin.accounts.anonymous = False


def _no_database(standin: Standin) -> None:
    standin.site.database_down = True


def _inactive(standin: Standin) -> None:
    standin.accounts.by_name["reader"].active = False


def _artifact_reader(standin: Standin) -> None:
    standin.accounts.by_name["reader"].views = frozenset({"CoreArtifact"})


def _reader_of_all(standin: Standin) -> None:
    standin.accounts.by_name["reader"].views = None


# What was special about the server when a recording was made, by the start of its name.
PREPARED: dict[str, Callable[[Standin], None]] = {
    "anonymous-off": _no_anonymous,
    "db-down": _no_database,
    "artifact-checksum-mismatch": lambda standin: standin.alter_content(APP5, b"altered"),
    "storage-checksum-mismatch": lambda standin: standin.alter_content(APP5, b"altered"),
    "artifact-storage-missing": lambda standin: standin.lose_content(APP5),
    "auth-login-inactive": _inactive,
    "auth-refresh-inactive": _inactive,
    "query-stored-access-token-of-inactive": _inactive,
    "perm-artifact-view-only": _artifact_reader,
    "perm-view-all": _reader_of_all,
}
# Whose recordings they are, where not the admin's.
READER = (
    *("artifact-no-permission", "storage-no-permission", "query-stored-no-permission", "graphql-no-permission"),
    *("graphql-mutation-no-permission", "query-stored-access-token-of-inactive", "auth-refresh-inactive", "perm-"),
)


@dataclass(frozen=True)
class Recording:
    """One recorded request and its answer."""

    version: str
    name: str
    request: dict[str, Any]
    response: dict[str, Any]

    def __str__(self) -> str:
        return self.name if self.version == "1.11.9" else f"{self.version}/{self.name}"


def _recordings() -> list[Recording]:
    found = []
    for path in sorted(RECORDINGS.glob("**/*.json")):
        if not path.stem.startswith("webhook-") and path.stem not in NOT_OFFERED:
            version = "1.4.13" if path.parent.name == "1.4.13" else "1.11.9"
            content = json.loads(path.read_text(encoding="utf-8"))
            found.append(Recording(version, path.stem, content["request"], content["response"]))
    return found


def _for_name(name: str, table: dict[str, Any]) -> Any:
    """The entry with the longest key the name starts with, None without one."""
    fitting = [key for key in table if name.startswith(key)]
    return table[max(fitting, key=len)] if fitting else None


def _standin(recording: Recording) -> Standin:
    """A stand-in as the recorded server was at that moment; its clock stands still."""
    moment = f"2026-12-01T{_for_name(recording.name, MOMENTS)}"
    if recording.version == "1.4.13":
        late = recording.name == "graphql-at-rel"
        moment = "2026-12-01T04:30:59.000000Z" if late else "2026-12-01T04:30:55.479062Z"
    standin = Standin(seed=recorded(moment, frozen=True), server_version=recording.version)
    if prepare := _for_name(recording.name, PREPARED):
        prepare(standin)
    return standin


def _token(recording: Recording, standin: Standin) -> str:
    """What stood where the recording says <jwt>."""
    name, accounts = recording.name, standin.accounts
    owner = "reader" if name.startswith(READER) else "admin"
    if "token-expired" in name:
        return accounts.token(owner, lifetime=-1)
    if name.startswith("auth-after-logout"):
        tokens = accounts.login("admin", "infrahub")
        accounts.logout(tokens["access_token"])
        return tokens["access_token" if name.endswith("access") else "refresh_token"]
    refreshes = name in ("auth-refresh-ok", "auth-refresh-inactive-account", "query-stored-refresh-token-as-access")
    return accounts.token(owner, "refresh" if refreshes else "access")


def _cookies(headers: list[str]) -> list[set[str]]:
    """Each cookie's parts, without what differs from login to login."""
    cookies = []
    for header in headers:
        parts = {part.strip().lower() for part in header.split(";")}
        names = {part.split("=")[0] for part in parts if "_token=" in part}
        cookies.append({part for part in parts if "_token=" not in part and not part.startswith("expires=")} | names)
    return cookies


def _made_by_the_request(name: str, body: Any) -> Any:
    """The body without the ids and times the request itself brought into being, and without LATE's checksum."""
    if name in ("branch-create-slash", "query-stored-mutation-as-query"):
        del body["data"]["BranchCreate"]["object"]["id"]
        body["data"]["BranchCreate"]["object"].pop("branched_from", None)
    elif name.startswith("branch-list"):
        body["data"]["Branch"].sort(key=lambda branch: branch["id"])
    elif name == "perm-artifact-view-only-query":
        for edge in body["data"]["CoreArtifact"]["edges"]:
            if edge["node"]["id"] == LATE:
                del edge["node"]["checksum"]
    elif isinstance(body, dict) and "access_token" in body:
        return sorted(body)
    return body


@pytest.mark.parametrize("recording", _recordings(), ids=str)
async def test_the_stand_in_gives_the_recorded_answer(recording: Recording) -> None:
    """Every recording that isn't in NOT_OFFERED."""
    asked, expected = recording.request, recording.response
    async with _standin(recording) as standin, aiohttp.ClientSession() as session:
        headers = {
            name: value.replace("<jwt>", _token(recording, standin)).replace("<api-key>", standin.api_key)
            for name, value in asked["headers"].items()
        }
        body = asked["body"]
        data = body if isinstance(body, str | None) else json.dumps(body)
        url = URL(asked["url"].replace("http://infrahub:8000", standin.url), encoded=True)
        async with session.request(asked["method"], url, headers=headers, data=data) as response:
            content = await response.read()

    assert response.status == expected["status"], content
    recorded_headers = expected["headers"]
    for name in ("content-type", "allow", "vary", "www-authenticate", "retry-after"):
        assert response.headers.get(name) == recorded_headers.get(name), name
    cookies = recorded_headers["set-cookie"].split("lax, ") if "set-cookie" in recorded_headers else []
    cookies = [cookie if cookie.endswith("lax") else f"{cookie}lax" for cookie in cookies]
    assert _cookies(response.headers.getall("set-cookie", [])) == _cookies(cookies)

    wanted = expected["body"]
    if response.headers.get("content-type") == "application/json" and asked["method"] != "HEAD":
        given = _made_by_the_request(recording.name, json.loads(content))
        wanted = json.loads(wanted) if isinstance(wanted, str) else wanted
        assert given == _made_by_the_request(recording.name, wanted)
        if "set-cookie" not in recorded_headers or recording.name == "auth-logout":
            assert response.headers["content-length"] == recorded_headers["content-length"]
    else:
        assert content == wanted.encode()
        assert response.headers["content-length"] == recorded_headers["content-length"]


def test_every_recording_is_replayed_or_named_with_a_reason() -> None:
    names = {path.stem for path in RECORDINGS.glob("**/*.json") if not path.stem.startswith("webhook-")}
    assert names - {recording.name for recording in _recordings()} == set(NOT_OFFERED)
