"""Every line the process writes, ours and the libraries', in one form, and none with a secret in it.

What it promises after :func:`configure`:

- One pipeline. structlog's loggers and the standard library's (aiohttp, kubernetes_asyncio, asyncio, warnings) come
  out alike on one stream: a JSON object per line, or text for people. ``time`` is RFC 3339 in UTC. Context variables
  (structlog.contextvars) are in every line of the task that bound them, a library's too.
- The level is that of our loggers. Libraries never go below INFO: at DEBUG kubernetes_asyncio logs the body of every
  answer, Secrets too (W9), and others log headers.
- Secrets are masked last of all, so also in tracebacks and in what libraries write: see :func:`redact`. Tracebacks
  never show local variables.

This is a net, not a licence: who logs still picks what is logged, and objects of the cluster never are.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MASK: Final = "***"
#: Nesting beyond this is not looked into, and so not shown.
_DEPTH: Final = 8

#: Names, without case, dashes and underscores, whose values are masked.
_SECRET_NAMES: Final = frozenset({"data", "stringdata", "kubeconfig", "cookie", "setcookie", "xinfrahubkey"})
#: And every name that ends so: accessToken, client_secret, clientKeyData, proxy-authorization.
_SECRET_ENDINGS: Final = ("token", "password", "passwd", "secret", "apikey", "privatekey", "keydata", "authorization")

# A field name that tells, a string, and a JSON or Python value of up to four levels. Quotes may be escaped, since JSON
# is logged within JSON. What is cut off in the middle counts up to its end: better too much is masked than too little.
_NAME: Final = r"[\w.-]{0,60}(?:token|password|passwd|secret|api[_-]?key|private[_-]?key|key-data)"
_STRING: Final = r""" (?:"(?:[^"\\]|\\.)*+(?:"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)) """


def _value(levels: int) -> str:
    nested = f"|{_value(levels - 1)}" if levels > 1 else ""
    return rf""" [\[{{](?>{_STRING}|[^][{{}}"']{nested})*+[]}}]? """


_TEXT: Final = re.compile(
    rf"""
    (?P<pem> -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z) )
  | (?P<jwt> \beyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*)? )
  | (?P<scheme> ://) [^/?\#\s"<>]* (?=@)
  | (?P<bearer> \bbearer\s+) (?!(?:token|auth|realm|scheme|credential)\w*) [\w.~+/-]+=*
  | (?P<header> \b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|token)\s+)?) [^\s"',}}]+
  | (?P<field> \\*["'](?:{_NAME}|data|stringData)\\*["']\s*:\s*)
        (?:{_STRING}|\\+["'].*?(?:\\+["']|\Z)|{_value(4)}|[^\s,}}]+)
  | (?P<block> ^(?P<indent>[ \t]*+)(?:[^\n]*?[ ])?(?:data|stringData):[ \t]*\n) (?:(?P=indent)[ \t]+[^\n]*(?:\n|\Z))+
  | (?P<line> (?<=\n)[ \t-]*{_NAME}:[ \t]+) [^\n]+
  | (?P<pair> \b{_NAME}=) (?:{_STRING}|[^\s,;&"')}}]+)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
#: Its groups that stand before the secret, and stay.
_KEPT: Final = frozenset({"scheme", "bearer", "header", "field", "block", "line", "pair"})


def mask_text(text: str) -> str:
    """``text`` without what looks like a secret: tokens, authorization headers, credentials in URLs, private keys,
    values of fields with telling names."""
    return _TEXT.sub(lambda found: (found[found.lastgroup] if found.lastgroup in _KEPT else "") + MASK, text)


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A structlog processor that masks secrets by the name they stand under and by what they look like."""
    return {key: _masked(key, value, 0) for key, value in event.items()}


def configure(*, level: str = "info", log_format: str = "auto", stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process; may be called again.

    ``level`` is a name of the logging module in small letters. ``log_format``: json, console, or auto, which is json
    unless ``stream`` (stderr) is a terminal.
    """
    out = stream if stream is not None else sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    pretty = log_format == "console" or (log_format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redact,
                *(_for_people(out) if pretty else _for_machines()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.INFO))
    logging.getLogger("vidra").setLevel(number)
    # A level of its own, so that a root logger set to DEBUG by anybody doesn't reach it.
    logging.getLogger("kubernetes_asyncio.client.rest").setLevel(logging.INFO)
    logging.captureWarnings(True)


def _for_machines() -> list[Processor]:
    return [_in_order, structlog.processors.JSONRenderer()]


def _for_people(out: TextIO) -> list[Processor]:
    colors = out.isatty() and not os.environ.get("NO_COLOR")
    return [
        # Not structlog's default, which shows the local variables of every frame, passwords among them.
        structlog.dev.ConsoleRenderer(
            colors=colors, timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _in_order(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """What one looks for first comes first; ``msg`` as in the logs of other controllers."""
    first = {"time": event.pop("time", None), "level": event.pop("level", method), "msg": event.pop("event", "")}
    return {**first, **event}


def _masked(name: object, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if _is_secret_name(name) and value != "":
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth >= _DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {str(key): _masked(key, item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(None, item, depth + 1) for item in value]
    return mask_text(str(value))


def _is_secret_name(name: object) -> bool:
    if not isinstance(name, str):
        return False
    plain = name.lower().replace("_", "").replace("-", "")
    return plain in _SECRET_NAMES or plain.endswith(_SECRET_ENDINGS)
