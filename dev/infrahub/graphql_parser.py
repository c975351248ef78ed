"""Reads the part of the GraphQL language that queries to Infrahub use.

One operation with variables, fields with aliases and arguments, inline fragments. Every node knows its line and
column, because error answers name them. Fragment definitions and directives are refused as unreadable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Location = tuple[int, int]

_TOKEN = re.compile(
    r"""(?P<skip>[\s,\ufeff]+|\#[^\n\r]*)|(?P<spread>\.\.\.)|(?P<name>[_A-Za-z]\w*)|(?P<float>-?\d+(?:\.\d+)?[eE][+-]?\d+|-?\d+\.\d+)
    |(?P<int>-?\d+)|(?P<block>\"\"\"(?:.|\n)*?\"\"\")|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<punctuation>[!$():=@\[\]{|}])""",
    re.VERBOSE,
)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class GraphQLSyntaxError(ValueError):
    """The text is not GraphQL this reader knows."""


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    where: Location


@dataclass(frozen=True)
class Type:
    """A type reference: `[String!]!` is Type("String", list_of=True, required=True, inner_required=True)."""

    name: str
    list_of: bool = False
    required: bool = False
    inner_required: bool = False

    def __str__(self) -> str:
        inner = self.name + "!" * self.inner_required if self.list_of else self.name
        return (f"[{inner}]" if self.list_of else inner) + "!" * self.required


@dataclass(frozen=True)
class Variable:
    """A variable's use, `$name`."""

    name: str


@dataclass(frozen=True)
class VariableDefinition:
    name: str
    type: Type
    default: Any
    where: Location


@dataclass(frozen=True)
class Field:
    name: str
    alias: str | None
    arguments: dict[str, Any]
    selection: list[Selection]
    where: Location

    @property
    def key(self) -> str:
        """The name the answer has it under."""
        return self.alias or self.name


@dataclass(frozen=True)
class InlineFragment:
    kind: str | None
    selection: list[Selection]


Selection = Field | InlineFragment


@dataclass(frozen=True)
class Operation:
    kind: str  # query or mutation
    name: str | None
    variables: list[VariableDefinition] = field(default_factory=list)
    selection: list[Selection] = field(default_factory=list)


def tokens(text: str) -> list[Token]:
    """The text's tokens, an `end` token last. Raises GraphQLSyntaxError."""
    found: list[Token] = []
    at, line, line_start = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise GraphQLSyntaxError(f"unexpected character {text[at]!r} in line {line}")
        kind, piece = str(match.lastgroup), match[0]
        if kind != "skip":
            found.append(Token(kind, piece, (line, at - line_start + 1)))
        if "\n" in piece:
            line += piece.count("\n")
            line_start = at + piece.rindex("\n") + 1
        at = match.end()
    return [*found, Token("end", "", (line, at - line_start + 1))]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0

    def operation(self) -> Operation:
        kind, name, variables = "query", None, []
        if self._peek().kind == "name":
            kind = self._take("name").text
            if kind not in ("query", "mutation"):
                raise GraphQLSyntaxError(f"unexpected {kind}")
            if self._peek().kind == "name":
                name = self._take("name").text
            if self._skip("("):
                while not self._skip(")"):
                    variables.append(self._variable_definition())
        operation = Operation(kind, name, variables, self._selection())
        self._take("end")
        return operation

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str, text: str | None = None) -> Token:
        token = self._peek()
        if token.kind != kind or (text is not None and token.text != text):
            raise GraphQLSyntaxError(f"expected {text or kind}, found {token.text or 'the end'} at {token.where}")
        self._at += 1
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token.kind == "punctuation" and token.text == text:
            self._at += 1
            return True
        return False

    def _variable_definition(self) -> VariableDefinition:
        where = self._take("punctuation", "$").where
        name = self._take("name").text
        self._take("punctuation", ":")
        kind = self._type()
        default = self._value() if self._skip("=") else None
        return VariableDefinition(name, kind, default, where)

    def _type(self) -> Type:
        if self._skip("["):
            name, inner_required = self._take("name").text, self._skip("!")
            self._take("punctuation", "]")
            return Type(name, list_of=True, inner_required=inner_required, required=self._skip("!"))
        return Type(self._take("name").text, required=self._skip("!"))

    def _selection(self) -> list[Selection]:
        self._take("punctuation", "{")
        found: list[Selection] = []
        while not self._skip("}"):
            found.append(self._inline_fragment() if self._peek().kind == "spread" else self._field())
        if not found:
            raise GraphQLSyntaxError("an empty selection")
        return found

    def _inline_fragment(self) -> InlineFragment:
        self._take("spread")
        kind = None
        if self._peek().kind == "name":
            self._take("name", "on")
            kind = self._take("name").text
        return InlineFragment(kind, self._selection())

    def _field(self) -> Field:
        token = self._take("name")
        name, alias = token.text, None
        if self._skip(":"):
            name, alias = self._take("name").text, name
        arguments: dict[str, Any] = {}
        if self._skip("("):
            while not self._skip(")"):
                key = self._take("name").text
                self._take("punctuation", ":")
                arguments[key] = self._value()
        deeper = self._peek().kind == "punctuation" and self._peek().text == "{"
        return Field(name, alias, arguments, self._selection() if deeper else [], token.where)

    def _value(self) -> Any:
        if self._skip("$"):
            return Variable(self._take("name").text)
        if self._skip("["):
            items = []
            while not self._skip("]"):
                items.append(self._value())
            return items
        if self._skip("{"):
            entries = {}
            while not self._skip("}"):
                key = self._take("name").text
                self._take("punctuation", ":")
                entries[key] = self._value()
            return entries
        token = self._peek()
        self._at += 1
        match token.kind:
            case "int":
                return int(token.text)
            case "float":
                return float(token.text)
            case "string":
                return _unescape(token.text[1:-1])
            case "block":
                return token.text[3:-3].strip()
            case "name":
                return {"true": True, "false": False, "null": None}.get(token.text, token.text)
        raise GraphQLSyntaxError(f"expected a value, found {token.text or 'the end'} at {token.where}")


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text)


def parse(text: str) -> Operation:
    """The one operation in the text. Raises GraphQLSyntaxError."""
    return _Parser(text).operation()
