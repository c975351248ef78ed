"""Every setting by name: its variables, its key in the ConfigMap, its default as people write it, what it means.

The words alone, of plain Python, so that ``--help`` needs nothing heavy. :mod:`vidra.config` has the types, the checks
and the values; the command line and docs/configuration.md have the words from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Option:
    """A setting ``a_b`` is the flag ``--a-b`` and the variable ``VIDRA_A_B``.

    ``default`` is what to write to get it, or in brackets what happens without. ``metavar`` empty: a switch. ``key``
    is that of the ConfigMap, where a value takes effect at once and wins; empty where it is fixed at the start.
    """

    name: str
    metavar: str
    default: str
    meaning: str
    key: str = ""
    #: A variable that means the same and wins over the own one: the pod knows where it is.
    given: str = ""

    @property
    def flag(self) -> str:
        """``--a-b``."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The flag, and for a switch its opposite."""
        return (self.flag,) if self.metavar else (self.flag, self.flag.replace("--", "--no-", 1))

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables; the first that is set counts."""
        own = f"VIDRA_{self.name.upper()}"
        return (self.given, own) if self.given else (own,)

    @property
    def help(self) -> str:
        """What ``vidra run --help`` says."""
        live = " *" if self.key else ""
        return f"{self.meaning} Default: {self.default.strip('()')}.{live} [{', '.join(self.variables)}]"


OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        Option(
            "kubeconfig",
            "FILE",
            "(the pod's service account, else KUBECONFIG or ~/.kube/config)",
            "Kubeconfig file.",
        ),
        Option("context", "NAME", "(its current one)", "Context of the kubeconfig."),
        Option(
            "namespace",
            "NAME",
            "vidra-system",
            "Vidra's own namespace: its ConfigMap and Secrets are here.",
            given="POD_NAMESPACE",
        ),
        Option(
            "secrets_namespace",
            "NAME",
            "(Vidra's own)",
            "Namespace that credentials and kubeconfigs are looked for in, * for all.",
        ),
        Option(
            "allow_in_kubeconfig",
            "WORDS",
            "(none of it)",
            "What kubeconfigs of Secrets may use, with commas between: exec, auth-provider, files, insecure-tls.",
        ),
        Option(
            "default_service_account",
            "NAMESPACE/NAME",
            "(the operator's own rights)",
            "Service account to deploy as where spec.serviceAccountName is empty.",
        ),
        Option("leader_elect", "", "false", "Hold a Lease while working, so that other replicas stand by."),
        Option("workers_sync", "COUNT", "16", "Syncs worked on at once; a quarter of them with one server."),
        Option("workers_resource", "COUNT", "16", "Resources worked on at once."),
        Option(
            "bind_address",
            "IP",
            "(all in a cluster, 127.0.0.1 elsewhere)",
            "Address of probes and metrics; empty: all.",
        ),
        Option("health_port", "PORT", "8081", "Port of /healthz and /readyz; 0: none."),
        Option("metrics_port", "PORT", "8080", "Port of /metrics; 0: none. May be the health port."),
        Option("log_level", "LEVEL", "info", "debug, info, warning or error."),
        Option("log_format", "FORMAT", "auto", "json, console, or auto: console on a terminal, json elsewhere."),
        Option("grace", "DURATION", "25s", "How long work under way may take to end at shutdown."),
        Option(
            "requeue_sync_after",
            "DURATION",
            "1m",
            "How often a sync asks Infrahub; 0: never by itself.",
            key="requeueSyncAfter",
        ),
        Option(
            "requeue_resources_after",
            "DURATION",
            "10m",
            "How often a resource is compared with its cluster; 0: never by itself.",
            key="requeueResourcesAfter",
        ),
        Option("query_name", "NAME", "(a built-in query)", "Stored query that lists artifacts.", key="queryName"),
        Option(
            "event_based_reconcile",
            "",
            "false",
            "Correct drift when it happens, for every resource.",
            key="eventBasedReconcile",
        ),
    )
}


def table() -> Iterator[str]:
    """The lines of the table in docs/configuration.md."""
    yield "| flag | variable | ConfigMap key | default | meaning |"
    yield "|---|---|---|---|---|"
    for option in OPTIONS.values():
        variables = ", ".join(f"`{name}`" for name in option.variables)
        flags = ", ".join(f"`{flag}`" for flag in option.flags)
        key = f"`{option.key}`" if option.key else ""
        default = option.default.strip("()") if option.default.startswith("(") else f"`{option.default}`"
        yield f"| {flags} | {variables} | {key} | {default} | {option.meaning} |"
