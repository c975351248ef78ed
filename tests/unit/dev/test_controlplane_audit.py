"""The audit log's reader: one entry for each request, in whatever pieces the log arrives."""

import json
from typing import Any

import pytest

from controlplane import audit
from controlplane.audit import AuditLog, Entry


class Server:
    """Stands for the API server: writes the lines it is told to, and one for each request that is sent."""

    def __init__(self) -> None:
        self.log = b""
        self.up = True
        self._numbers = iter(range(1_000_000))

    def write(self, text: str) -> None:
        self.log += text.encode()

    def read(self, offset: int) -> bytes:
        return self.log[offset:]

    def request(
        self, verb: str = "get", *, stage: str = "ResponseComplete", agent: str = "kubectl/1", **more: Any
    ) -> str:
        event = {"auditID": f"id-{next(self._numbers)}", "stage": stage, "verb": verb, "userAgent": agent, **more}
        line = json.dumps(event) + "\n"
        self.write(line)
        return line

    def send(self, agent: str) -> bool:
        if self.up:
            self.request(agent=agent)
        return self.up


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def log(server: Server) -> AuditLog:
    return AuditLog(server.read, server.send)


def test_an_entry_has_what_the_line_says() -> None:
    entry = Entry.parse(
        {
            "verb": "patch",
            "requestURI": "/apis/apps/v1/namespaces/a/deployments/web/status",
            "user": {"username": "jo", "groups": ["dev", "system:authenticated"]},
            "userAgent": "vidra/1",
            "objectRef": {
                "apiGroup": "apps",
                "resource": "deployments",
                "subresource": "status",
                "namespace": "a",
                "name": "web",
            },
            "responseStatus": {"code": 200},
        }
    )
    assert entry == Entry(
        verb="patch",
        user="jo",
        user_agent="vidra/1",
        uri="/apis/apps/v1/namespaces/a/deployments/web/status",
        group="apps",
        resource="deployments",
        subresource="status",
        namespace="a",
        name="web",
        code=200,
        groups=("dev", "system:authenticated"),
    )


def test_an_impersonated_user_is_the_one_who_acts() -> None:
    entry = Entry.parse({"user": {"username": "operator"}, "impersonatedUser": {"username": "tenant"}})
    assert entry.user == "tenant"


def test_a_path_without_an_object_has_empty_fields() -> None:
    entry = Entry.parse({"verb": "get", "requestURI": "/version"})
    assert (entry.resource, entry.code, entry.groups) == ("", 0, ())


def test_only_what_comes_after_the_mark_is_counted(server: Server, log: AuditLog) -> None:
    server.request()
    mark = log.mark()
    server.request()
    server.request()
    assert log.count(since=mark) == 2
    assert log.count() == 3


def test_the_readers_own_requests_are_never_shown(server: Server, log: AuditLog) -> None:
    for _ in range(3):
        log.flush()
    assert log.entries() == []


def test_all_filters_hold_at_once(server: Server, log: AuditLog) -> None:
    pods = {"resource": "pods"}
    server.request("list", objectRef=pods, user={"username": "a"}, agent="vidra/1")
    server.request("list", objectRef=pods, user={"username": "b"}, agent="vidra/1")
    server.request("get", objectRef=pods, user={"username": "a"}, agent="vidra/1")
    server.request("list", objectRef={"resource": "nodes"}, user={"username": "a"}, agent="vidra/1")
    server.request("list", objectRef=pods, user={"username": "a"}, agent="kubectl/1")
    assert log.count(verb="list", resource="pods", user="a", user_agent_prefix="vidra/") == 1


def test_an_empty_subresource_leaves_out_status(server: Server, log: AuditLog) -> None:
    server.request("patch", objectRef={"resource": "pods"})
    server.request("patch", objectRef={"resource": "pods", "subresource": "status"})
    assert log.count(resource="pods") == 2
    assert log.count(resource="pods", subresource="") == 1
    assert log.count(resource="pods", subresource="status") == 1


def test_a_watch_is_counted_when_it_begins_and_not_again_when_it_ends(server: Server, log: AuditLog) -> None:
    started = server.request("watch", stage="ResponseStarted")
    assert log.count(verb="watch") == 1
    mark = log.mark()
    server.write(started.replace("ResponseStarted", "ResponseComplete"))
    assert log.count(verb="watch") == 1
    assert log.count(since=mark, verb="watch") == 0


def test_a_line_still_being_written_waits_for_its_end(server: Server, log: AuditLog) -> None:
    server.up = False
    line = json.dumps({"auditID": "slow", "stage": "ResponseComplete", "verb": "list", "userAgent": "é"}) + "\n"
    server.write(line[:40])
    assert log.count() == 0
    server.write(line[40:])
    assert log.count(verb="list") == 1


def test_the_log_can_be_read_while_the_server_is_down(server: Server, log: AuditLog) -> None:
    server.request()
    server.up = False
    assert log.count() == 1


def test_before_the_first_request_there_is_nothing(server: Server, log: AuditLog) -> None:
    server.up = False
    assert log.entries() == []


def test_a_server_that_answers_but_does_not_log_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FLUSH_WITHIN", 0.0)
    with pytest.raises(TimeoutError, match="shows no request"):
        AuditLog(lambda _: b"", lambda _: True).flush()
