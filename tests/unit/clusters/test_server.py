"""One spelling per API server."""

import pytest

from vidra.clusters.server import host_label, normalise_server


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", ""),
        ("https://kubernetes.default.svc", ""),
        ("https://kubernetes.default.svc:443/", ""),
        ("https://KUBERNETES.default.svc.cluster.local", ""),
        ("https://kubernetes.default.svc:6443", "https://kubernetes.default.svc:6443"),
        ("HTTPS://K8s.Example.com:443/", "https://k8s.example.com"),
        ("http://k8s.example.com:80", "http://k8s.example.com"),
        ("http://k8s.example.com:443", "http://k8s.example.com:443"),
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("https://[2001:DB8::1]:6443", "https://[2001:db8::1]:6443"),
        ("https://rancher.example.com/k8s/clusters/c-1/", "https://rancher.example.com/k8s/clusters/c-1"),
    ],
)
def test_spellings_of_one_server_are_one(url: str, server: str) -> None:
    assert normalise_server(url) == server
    assert normalise_server(server) == server


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://10.0.0.1", "https://10.0.0.10"),
        ("https://a.example:6443", "https://a.example:6444"),
        ("https://a.example", "http://a.example"),
        ("https://a.example/x", "https://a.example/y"),
    ],
)
def test_different_servers_stay_different(one: str, other: str) -> None:
    assert normalise_server(one) != normalise_server(other)


@pytest.mark.parametrize("url", ["a.example", "ftp://a.example", "https://", "https://a.example:port"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        normalise_server(url)


@pytest.mark.parametrize(
    ("server", "label"),
    [("https://10.0.0.1:6443/x", "10.0.0.1"), ("https://[2001:db8::1]:6443", "2001-db8--1"), ("", "")],
)
def test_a_label_has_the_host_and_nothing_else(server: str, label: str) -> None:
    assert host_label(server) == label
