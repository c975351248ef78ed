"""What may be set, where it is set, and which place wins.

Two kinds of settings, told apart by when they can change:

- :class:`Settings` are fixed when the process starts: a flag wins over its environment variable, that over the default.
- :class:`LiveConfig` may change while it runs: a key of the labelled ConfigMap wins over the flag, the variable and the
  default of the same meaning. A wrong value changes nothing and is named; a key that goes away falls back.

Nothing here reads or watches anything: :meth:`Settings.load` gets flags and environment, :func:`choose_config_map` and
:func:`parse_config_map` get objects as the API server sends them. What the settings are called and mean is in
:mod:`vidra.options`; docs/configuration.md is the same for users.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from vidra.api.durations import parse_duration
from vidra.options import OPTIONS

#: Seconds. A shorter interval is a typing error ("1ms"), and it would flood Infrahub and the API server.
MIN_INTERVAL: Final = 1.0
#: Seconds: what fits into Go's time.Duration, which wrote these settings first.
_MAX_DURATION: Final = 2**63 / 1e9

#: A Service called "vidra-metrics" makes Kubernetes set VIDRA_METRICS_PORT=tcp://10.96.0.7:8080 in every pod beside it.
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://")


class SettingsError(ValueError):
    """Flags or variables that can't be used. The text is one line, and names flag, variable and value of each."""


def parse_interval(text: str) -> float | None:
    """Seconds of a Go duration; None for 0, which turns it off. Raises ValueError."""
    seconds = _duration(text)
    if seconds == 0:
        return None
    if seconds < MIN_INTERVAL:
        raise ValueError(f"{text!r} is shorter than {MIN_INTERVAL:g}s, the shortest interval (0 disables)")
    return seconds


def parse_bool(text: str) -> bool:
    """What Go's strconv.ParseBool takes, in any case of letters. Raises ValueError."""
    match text.strip().lower():
        case "1" | "t" | "true":
            return True
        case "0" | "f" | "false":
            return False
    raise ValueError(f"{text!r} is neither true nor false")


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds >= _MAX_DURATION:
        raise ValueError(f"{text!r} is longer than any duration can be")
    return seconds


def _of_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Flags and variables are text; defaults and values given in code have their type already."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _address(text: str) -> str:
    if text:
        ipaddress.ip_address(text)
    return text


def _secrets_namespace(text: str) -> str:
    if text in {"", "*"} or re.fullmatch(_NAMESPACE, text):
        return text
    raise ValueError("neither a namespace nor * nor empty")


def _words(value: object) -> object:
    return frozenset(filter(None, re.split(r"[,\s]+", value))) if isinstance(value, str) else value


def _allowed(words: frozenset[str]) -> frozenset[str]:
    unknown = words - _KUBECONFIG_WORDS
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not one of {', '.join(sorted(_KUBECONFIG_WORDS))}")
    return words


#: The words of vidra.kube.kubeconfig.Allow, which this room doesn't know; a test holds the two together.
_KUBECONFIG_WORDS: Final = frozenset({"exec", "auth-provider", "files", "insecure-tls"})
_NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
Interval = Annotated[float | None, _of_text(parse_interval)]
Workers = Annotated[int, Field(ge=1, le=1000)]
Port = Annotated[int, Field(ge=0, le=65535)]


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """What may change while the operator runs. Intervals are seconds, None where they are turned off.

    ``query_name`` empty: Vidra's built-in query lists the artifacts.
    """

    requeue_sync_after: float | None = 60.0
    requeue_resources_after: float | None = 600.0
    query_name: str = ""
    event_based_reconcile: bool = False


_LIVE: Final = LiveConfig()


class Settings(BaseModel):
    """What is fixed while the operator runs. vidra.options says of each field what it means and how it is set."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kubeconfig: Annotated[Path | None, AfterValidator(lambda path: path and path.expanduser())] = None
    context: str | None = None
    namespace: str = Field("vidra-system", pattern=_NAMESPACE)
    #: Empty: Vidra's own; ``*``: all.
    secrets_namespace: Annotated[str, AfterValidator(_secrets_namespace)] = ""
    allow_in_kubeconfig: Annotated[frozenset[str], BeforeValidator(_words), AfterValidator(_allowed)] = frozenset()
    default_service_account: str = Field(
        "", pattern=r"^$|^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"
    )
    leader_elect: Annotated[bool, _of_text(parse_bool)] = False
    workers_sync: Workers = 16
    workers_resource: Workers = 16
    #: Empty: all addresses.
    bind_address: Annotated[str, AfterValidator(_address)] = "127.0.0.1"
    health_port: Port = 8081
    metrics_port: Port = 8080
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _of_text(str.lower)] = "info"
    log_format: Annotated[Literal["auto", "json", "console"], _of_text(str.lower)] = "auto"
    grace: Annotated[float, _of_text(_duration), Field(ge=0)] = 25.0
    requeue_sync_after: Interval = _LIVE.requeue_sync_after
    requeue_resources_after: Interval = _LIVE.requeue_resources_after
    query_name: str = Field("", max_length=253)
    event_based_reconcile: Annotated[bool, _of_text(parse_bool)] = False

    @property
    def secrets_scope(self) -> str | None:
        """The namespace whose Secrets count; None: those of all namespaces."""
        return None if self.secrets_namespace == "*" else self.secrets_namespace or self.namespace

    @property
    def live(self) -> LiveConfig:
        """What holds where no ConfigMap says otherwise."""
        return LiveConfig(
            requeue_sync_after=self.requeue_sync_after,
            requeue_resources_after=self.requeue_resources_after,
            query_name=self.query_name,
            event_based_reconcile=self.event_based_reconcile,
        )

    @classmethod
    def load(cls, flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
        """Flags over variables over defaults.

        ``flags`` maps field names to what was given, None where nothing was. An empty variable counts as unset.
        Raises SettingsError.
        """
        values: dict[str, object] = {}
        sources: dict[str, str] = {}
        if environ.get("KUBERNETES_SERVICE_HOST"):
            values["bind_address"] = ""
        for name in cls.model_fields:
            option = OPTIONS[name]
            if flags.get(name) is not None:
                values[name], sources[name] = flags[name], f"{option.flag} (or {option.variables[-1]})"
                continue
            for variable in option.variables:
                value = environ.get(variable)
                if value and not _SERVICE_LINK.match(value):
                    values[name], sources[name] = value, f"{variable} (or {option.flag})"
                    break
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError("; ".join(_problem(detail, sources) for detail in error.errors())) from error


def _problem(detail: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    name = str(detail["loc"][0])
    text = str(detail["msg"]).removeprefix("Value error, ")
    given = repr(str(detail["input"]))
    return f"{sources.get(name, name)}: {text}" + ("" if given in text else f", got {given}")


_PARSE: Final[Mapping[str, Callable[[str], object]]] = {
    "requeue_sync_after": parse_interval,
    "requeue_resources_after": parse_interval,
    "query_name": str.strip,
    "event_based_reconcile": parse_bool,
}
_KEYS: Final = {OPTIONS[field].key: (field, parse) for field, parse in _PARSE.items()}


def parse_config_map(
    data: Mapping[str, str] | None, previous: LiveConfig, base: LiveConfig
) -> tuple[LiveConfig, tuple[str, ...]]:
    """What a ConfigMap's ``data`` sets, and what is wrong with it, one text per problem.

    A key that is missing has its value from ``base`` (:attr:`Settings.live`). A wrong value, which is a problem, leaves
    the one of ``previous``, the last answer of this function (at the start: ``base``). An unknown key is a problem too:
    mostly it is a known one misspelt.
    """
    values: dict[str, Any] = {field: getattr(base, field) for field, _ in _KEYS.values()}
    problems = []
    for key, text in sorted((data or {}).items()):
        if key not in _KEYS:
            problems.append(f"{key}: no such key; there are {', '.join(_KEYS)}")
            continue
        field, parse = _KEYS[key]
        try:
            values[field] = parse(str(text))
        except ValueError as error:
            values[field] = getattr(previous, field)
            problems.append(f"{key}: {error}; the last good value stays")
    return LiveConfig(**values), tuple(problems)


def choose_config_map(config_maps: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """The one of several labelled ConfigMaps that counts, and a problem that names the others.

    The oldest counts, among equally old ones the first by name: one that is added by mistake changes nothing.
    """
    ranked = sorted(
        config_maps,
        key=lambda each: (each["metadata"].get("creationTimestamp") or "", _full_name(each)),
    )
    if len(ranked) < 2:
        return (ranked[0] if ranked else None), ()
    others = ", ".join(_full_name(each) for each in ranked[1:])
    return ranked[0], (f"{_full_name(ranked[0])} is the oldest ConfigMap with this label and counts; not {others}",)


def _full_name(item: Mapping[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
