"""The servers' command lines: defaults wherever loopback, speed and the audit log don't ask otherwise."""

from pathlib import Path

SERVICE_RANGE = "10.96.0.0/12"
FIRST_SERVICE = "10.96.0.1"  # the `kubernetes` Service's
ISSUER = "https://kubernetes.default.svc"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


def etcd(directory: Path) -> list[str]:
    """On a socket in the folder, so that nobody else on the machine can reach the data.

    What it advertises to peers is never used: it is the only member.
    """
    return [
        f"--data-dir={directory}/etcd",
        f"--listen-client-urls=unix://{directory}/etcd.sock",
        "--advertise-client-urls=unix://client:0",
        "--listen-peer-urls=unix://peer:0",
        "--initial-advertise-peer-urls=unix://peer:0",
        "--initial-cluster=default=unix://peer:0",
        "--unsafe-no-fsync",  # the data is thrown away with the control plane
        "--log-level=warn",
    ]


def api_server(directory: Path, *, port: int) -> list[str]:
    """HTTPS on one port of 127.0.0.1, which may be reserved by a socket that sets SO_REUSEPORT."""
    return [
        f"--etcd-servers=unix://{directory}/etcd.sock",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing=true",
        "--endpoint-reconciler-type=none",  # a loopback address may not stand in the kubernetes Service's endpoints
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--cert-dir={directory}",
        f"--tls-cert-file={directory}/server.crt",
        f"--tls-private-key-file={directory}/server.key",
        f"--client-ca-file={directory}/ca.crt",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={directory}/sa.pub",
        f"--service-account-signing-key-file={directory}/sa.key",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--audit-policy-file={directory}/audit-policy.yaml",
        f"--audit-log-path={directory}/audit.log",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=1000000",  # MB: never rotated, so that the reader's offset stays true
        "--profiling=false",
    ]


def controller_manager(directory: Path, *, kubeconfig: Path) -> list[str]:
    """All default controllers but those of nodes, since there are none; serves nothing itself."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={directory}/sa.key",
        f"--root-ca-file={directory}/ca.crt",
        "--controllers=*,-node-ipam-controller,-node-lifecycle-controller",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
