"""What a stand-in can be filled with: web servers as the demo has them, and the benchmark's artifacts.

A seed is a function that fills a stand-in; `named` finds one by name for the command line and the control interface.
The state behind the recordings has a module of its own, infrahub.recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infrahub import recorded

if TYPE_CHECKING:
    from infrahub.server import Seed, Standin

WEBSERVER = "Webserver_Manifest"
BENCH = "Bench_Manifest"


def webserver_manifest(target: str, *, namespace: str | None = None, replicas: int = 1) -> str:
    """A web server for the target: Namespace, Deployment, Service, Ingress, about 1 kB, beginning with `---`.

    Without `namespace` the target has its own, `ns-<target>`.
    """
    namespace = namespace or f"ns-{target}"
    return f"""---
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {target}
  namespace: {namespace}
  labels:
    app: {target}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: {target}
  template:
    metadata:
      labels:
        app: {target}
    spec:
      containers:
        - name: web
          image: nginx:1.29
          ports:
            - name: http
              containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: {target}
  namespace: {namespace}
spec:
  selector:
    app: {target}
  ports:
    - name: http
      port: 80
      targetPort: http
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {target}
  namespace: {namespace}
spec:
  rules:
    - host: {target}.example.com
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {target}
                port:
                  name: http
"""


def webservers(count: int, *, shared_namespace: str | None = None) -> Seed:
    """`count` web servers, web-001 on; all in one Namespace, which each artifact declares, when one is given."""

    def fill(standin: Standin) -> None:
        for number in range(1, count + 1):
            target = f"web-{number:03}"
            content = webserver_manifest(target, namespace=shared_namespace)
            standin.add_artifact(
                name=WEBSERVER,
                content=content,
                target=target,
                kind="VidraWebserver",
                definition="Webserver_Manifest",
            )

    return fill


def bench_manifest(number: int, *, objects: int = 6, namespace: str = "default") -> str:
    """`objects` objects that start nothing: ConfigMaps, Services and Deployments of 0 replicas in turn."""
    documents = []
    for index in range(objects):
        name = f"bench-{number:05}-{index}"
        metadata = f"metadata:\n  name: {name}\n  namespace: {namespace}\n"
        match index % 3:
            case 0:
                documents.append(f"apiVersion: v1\nkind: ConfigMap\n{metadata}data:\n  number: '{number}'\n")
            case 1:
                documents.append(
                    f"apiVersion: v1\nkind: Service\n{metadata}spec:\n  selector:\n    app: {name}\n"
                    "  ports:\n    - name: http\n      port: 80\n      targetPort: 8080\n"
                )
            case _:
                documents.append(
                    f"apiVersion: apps/v1\nkind: Deployment\n{metadata}spec:\n  replicas: 0\n"
                    f"  selector:\n    matchLabels:\n      app: {name}\n"
                    f"  template:\n    metadata:\n      labels:\n        app: {name}\n"
                    "    spec:\n      containers:\n        - name: main\n          image: example/app:1.0\n"
                )
    return "".join(f"---\n{document}" for document in documents)


def bench(count: int, *, objects: int = 6, namespace: str = "default") -> Seed:
    """`count` artifacts of `objects` objects each: 2 ConfigMaps, 2 Services, 2 Deployments when 6."""

    def fill(standin: Standin) -> None:
        for number in range(1, count + 1):
            content = bench_manifest(number, objects=objects, namespace=namespace)
            standin.add_artifact(name=BENCH, content=content, target=f"bench-{number:05}", kind="VidraBench")

    return fill


def empty() -> Seed:
    """Nothing but the stored query every stand-in has."""
    return lambda standin: None


SEEDS = {"webservers": webservers, "bench": bench, "recorded": recorded.recorded, "empty": empty}


def named(seed: str, **settings: Any) -> Seed:
    """The seed of this name. Raises KeyError for an unknown one, TypeError for a setting it doesn't have."""
    made: Seed = SEEDS[seed](**settings)  # type: ignore[operator]
    return made
