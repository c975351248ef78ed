"""Makes the CustomResourceDefinitions from the models: ``python -m vidra.api.crd [--check] [FOLDER]``.

The models are the only description of the two kinds; manifests/crds is made from them and checked for staleness.
What becomes of a model: $refs are written out, "or null" is dropped (an absent field is how one says nothing), titles
go, and defaults stay out unless the original's schema has them (``server_default``).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from vidra.api.common import Wire
from vidra.api.infrahubsync import InfrahubSync
from vidra.api.names import GROUP, RESOURCE_KIND, SYNC_KIND, VERSION
from vidra.api.vidraresource import VidraResource

_KEPT = ("description", "type", "pattern", "minLength", "maxLength", "minimum", "maximum", "enum")

_READY = '.status.conditions[?(@.type=="Ready")]'


def definitions() -> dict[str, dict[str, Any]]:
    """The two CRDs, by file name."""
    sync = _definition(
        InfrahubSync,
        kind=SYNC_KIND,
        plural="infrahubsyncs",
        short="isync",
        columns=[
            _column("State", ".syncState", "What became of the last reconcile."),
            _column("Artifacts", ".artifactCount", "How many artifacts the source has.", kind="integer"),
            _column("Last Sync", ".lastSyncTime", "When the last successful reconcile ended.", kind="date"),
        ],
        source_columns=[
            ("Artifact", ".spec.source.artefactName", "Name of the artifacts."),
            ("Branch", ".spec.source.targetBranch", "Infrahub branch."),
        ],
    )
    resource = _definition(
        VidraResource,
        kind=RESOURCE_KIND,
        plural="vidraresources",
        short="vres",
        columns=[
            _column("State", ".DeployState", "What became of the last reconcile."),
            _column("Last Sync", ".lastSyncTime", "When the last successful reconcile ended.", kind="date"),
        ],
        source_columns=[
            ("Server", ".spec.destination.server", "API server of the destination; empty is this cluster.")
        ],
    )
    spec = _properties(resource)["spec"]
    spec["x-kubernetes-validations"] = [
        {
            "rule": "!(has(self.manifest) && has(self.compressedManifest))",
            "message": "give manifest or compressedManifest, not both",
        }
    ]
    return {f"{GROUP}_infrahubsyncs.yaml": sync, f"{GROUP}_vidraresources.yaml": resource}


def _definition(
    model: type[Wire],
    *,
    kind: str,
    plural: str,
    short: str,
    columns: list[dict[str, Any]],
    source_columns: list[tuple[str, str, str]],
) -> dict[str, Any]:
    document = model.model_json_schema(by_alias=True)
    schema = _structural(document, document.get("$defs", {}))
    schema["properties"]["metadata"] = {"type": "object"}
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of this representation of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        **schema["properties"],
    }
    schema["required"] = [name for name in schema.get("required", []) if name != "metadata"] or None
    if schema["required"] is None:
        del schema["required"]
    schema["description"] = " ".join((model.__doc__ or "").split())
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "shortNames": [short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        *columns,
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                        *(
                            {"name": name, "type": "string", "jsonPath": path, "description": text, "priority": 1}
                            for name, path, text in source_columns
                        ),
                        {
                            "name": "Message",
                            "type": "string",
                            "jsonPath": f"{_READY}.message",
                            "description": "What the Ready condition says.",
                        },
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(name: str, path: str, description: str, *, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": f".status{path}", "description": description}


def _properties(definition: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return properties


def _structural(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema of pydantic's as a structural schema of Kubernetes."""
    node = _resolved(node, defs)
    made = {name: node[name] for name in _KEPT if name in node}
    if "properties" in node:
        made["type"] = "object"
        made["properties"] = {name: _structural(child, defs) for name, child in node["properties"].items()}
        required = [name for name in node.get("required", ()) if name in made["properties"]]
        if required:
            made["required"] = required
    if "items" in node:
        made["items"] = _structural(node["items"], defs)
    if "server_default" in node:
        made["default"] = node["server_default"]
    if "format" in node:
        made["format"] = node["format"]
    if "values" in node:
        made["enum"] = node["values"].split()
    if "rule" in node:
        made["x-kubernetes-validations"] = [{"rule": node["rule"], "message": node["rule_message"]}]
    return made


def _resolved(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """``node`` with its $ref, and its only alternative to null, written into it; what stands in ``node`` wins."""
    for place in ("anyOf", "allOf"):
        real = [choice for choice in node.get(place, ()) if choice.get("type") != "null"]
        if len(real) == 1:
            node = {**_resolved(real[0], defs), **{k: v for k, v in node.items() if k != place}}
    if "$ref" in node:
        target = _resolved(defs[node["$ref"].rpartition("/")[2]], defs)
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def render(definition: dict[str, Any]) -> str:
    """YAML with a line that says where it comes from."""
    text = yaml.safe_dump(definition, sort_keys=False, allow_unicode=True, width=120)
    return f"# Made from src/vidra/api by `make generate`. Do not edit.\n{text}"


def main(arguments: list[str] | None = None) -> int:
    """Writes the files; with --check writes nothing and returns 1 when one is stale."""
    parser = argparse.ArgumentParser(prog="python -m vidra.api.crd", description="Make the CRDs from the models.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a file is stale")
    parser.add_argument("folder", nargs="?", default="manifests/crds", type=Path)
    options = parser.parse_args(arguments)
    stale = []
    for name, definition in definitions().items():
        path: Path = options.folder / name
        text = render(definition)
        if not path.exists() or path.read_text() != text:
            stale.append(path)
            if not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    for path in stale:
        sys.stderr.write(f"{path} {'is stale: run make generate' if options.check else 'written'}\n")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
