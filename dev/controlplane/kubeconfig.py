"""A kubeconfig for one user of one cluster."""

import base64

import yaml

from controlplane.certs import KeyPair


def render(*, url: str, ca: bytes, user: str, credentials: KeyPair) -> bytes:
    """The file's text, with certificates and key embedded, so that it may be copied anywhere."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    login = {
        "client-certificate-data": base64.b64encode(credentials.certificate).decode(),
        "client-key-data": base64.b64encode(credentials.key).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "controlplane", "cluster": cluster}],
        "users": [{"name": user, "user": login}],
        "contexts": [{"name": "controlplane", "context": {"cluster": "controlplane", "user": user}}],
        "current-context": "controlplane",
    }
    return yaml.safe_dump(document, sort_keys=False).encode()
