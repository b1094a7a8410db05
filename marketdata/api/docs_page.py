"""The page ``/docs``: the OpenAPI description as a document that people read. Pure."""

from __future__ import annotations

import http
import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from marketdata.api.schema_examples import example, resolved
from marketdata.http.document import Document, marked
from marketdata.http.failures import PROBLEMS
from marketdata.http.reply import JSON

_PAGE = Document(Path(__file__).resolve().parent / "docs.html")
_MAX_CHOICES = 20

Object = Mapping[str, Any]


class Operation(NamedTuple):
    method: str
    path: str
    description: Object

    @property
    def anchor(self) -> str:
        return str(self.description["operationId"])


def docs_page(document: Object) -> bytes:
    """The page in HTML. ``document`` is an OpenAPI description as :mod:`marketdata.api.openapi` makes it."""
    tags: dict[str, list[Operation]] = {}
    for operation in _operations(document):
        tags.setdefault(operation.description["tags"][0], []).append(operation)
    return _PAGE.filled(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        about=marked(document["info"]["description"]),
        contents="\n".join(f"<h2>{escape(tag)}</h2>\n{_contents(each)}" for tag, each in tags.items()),
        tags="\n".join(_section(tag, operations, document) for tag, operations in tags.items()),
        codes="".join(_codes(document)),
    )


def _operations(document: Object) -> Iterator[Operation]:
    for path, operations in document["paths"].items():
        for method, description in operations.items():
            yield Operation(method.upper(), path, description)


def _contents(operations: Iterable[Operation]) -> str:
    lines = (
        f'<li><a href="#{each.anchor}"><code>{each.method} {escape(each.path)}</code></a> '
        f"<small>{marked(each.description['summary'])}</small></li>\n"
        for each in operations
    )
    return f"<ul>\n{''.join(lines)}</ul>"


def _section(tag: str, operations: Iterable[Operation], document: Object) -> str:
    return f"<section>\n<h2>{escape(tag)}</h2>\n{''.join(_article(each, document) for each in operations)}</section>"


def _article(operation: Operation, document: Object) -> str:
    of, components = operation.description, document["components"]["schemas"]
    parts = [
        f"<h3><code>{operation.method} {escape(operation.path)}</code></h3>",
        f"<p>{marked(of['summary'])}. {marked(of['description'])}</p>",
        f"<p>{_credentials(of, document['components']['securitySchemes'])}</p>",
    ]
    if parameters := of.get("parameters", []):
        parts.append(_entries("Parameters", (_parameter(each, components) for each in parameters)))
    parts.append(f"<h4>Example</h4>\n{_code(_request(operation, components))}")
    if body := of.get("requestBody"):
        parts.append(_entries("Body", _contents_of(body["content"], components)))
    if messages := of.get("x-websocket"):
        parts.append(_entries(f"Messages of {messages['subprotocol']}", _messages(messages, components)))
    answers = [each for each in of["responses"].items() if int(each[0]) < 400]
    parts.append(_entries("Answers", (_answer(status, response, components) for status, response in answers)))
    errors = [each for each in of["responses"].items() if int(each[0]) >= 400]
    others = _other_errors((response for _, response in errors), components)
    parts.append(_entries("Errors", [*(_error(*each) for each in errors), *others]))
    return f'<article id="{operation.anchor}">\n{"".join(parts)}</article>\n'


def _credentials(of: Object, schemes: Mapping[str, Object]) -> str:
    names = [name for wanted in of.get("security", ()) for name in wanted]
    if not names:
        return "It needs no token."
    needed = (schemes[name]["description"].rstrip(".") for name in names)
    return f"It needs {' or '.join(marked(each[:1].lower() + each[1:]) for each in needed)}."


# -- the request ------------------------------------------------------------------------------------------------------


def _parameter(parameter: Object, components: Mapping[str, Object]) -> str:
    own = parameter["schema"]
    schema = resolved(own, components)
    facts = ["in the path"] if parameter["in"] == "path" else ["required"] if parameter["required"] else []
    facts.append(_kind(schema))
    if "default" in schema:
        default = escape(str(schema["default"]))
        facts.append(f"default <code>{default}</code>" if default else "default empty")
    general = resolved({"$ref": own["$ref"]}, components) if "$ref" in own else {}
    about = dict.fromkeys(each.get("description", "") for each in (own, general))
    return _entry(parameter["name"], ", ".join(facts), " ".join(filter(None, about)))


def _kind(schema: Object) -> str:
    """What values a parameter may have, as HTML."""
    if choices := schema.get("enum"):
        return "one of " + " ".join(f"<code>{escape(str(each))}</code>" for each in choices[:_MAX_CHOICES])
    kind = schema.get("type", "text")
    names = [kind] if isinstance(kind, str) else kind
    text = " or ".join("text" if name == "string" else escape(name) for name in names)
    if "maximum" in schema and "minimum" in schema:
        text += f" from {schema['minimum']} to {schema['maximum']}"
    return text


def _request(operation: Operation, components: Mapping[str, Object]) -> str:
    """The request line of an example, and its body."""
    path, query = operation.path, []
    for each in operation.description.get("parameters", ()):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote(str(each["example"]), safe=":"))
        elif "example" in each:
            query.append(f"{each['name']}={quote(str(each['example']), safe=':,/')}")
    line = f"{operation.method} {path}" + (f"?{'&'.join(query)}" if query else "")
    body = operation.description.get("requestBody")
    if body is None:
        return line
    return f"{line}\nContent-Type: {JSON}\n\n{_shown(example(body['content'][JSON]['schema'], components))}"


def _contents_of(content: Mapping[str, Object], components: Mapping[str, Object]) -> Iterator[str]:
    for media_type, each in content.items():
        schema = each.get("schema", {})
        about = "" if "$ref" in schema else schema.get("description", "")
        yield _entry(media_type, "", about, *_explained(schema, components))


def _messages(messages: Object, components: Mapping[str, Object]) -> Iterator[str]:
    for side in ("client", "service"):
        schema = messages[side]
        shown = _code(_shown(example(schema, components)))
        yield _entry(side, "", "", *_explained(messages[side], components), shown)


# -- the answers ------------------------------------------------------------------------------------------------------


def _answer(status: str, response: Object, components: Mapping[str, Object]) -> str:
    content = response.get("content", {})
    fields = [f"the header field `{name}`" for name in response.get("headers", {})]
    facts = ", ".join([*(f"<code>{escape(each)}</code>" for each in content), *map(marked, fields)])
    schema = content.get(JSON, {}).get("schema")
    if schema is None:
        return _entry(status, facts, "" if content else _phrase(status))
    return _entry(status, facts, "", *_explained(schema, components), _code(_shown(example(schema, components))))


def _error(status: str, response: Object) -> str:
    links = " ".join(map(_link, response.get("x-problem-codes", ())))
    return f"<div><dt><code>{status}</code> <small>{_phrase(status)}</small> {links}</dt></div>\n"


def _other_errors(responses: Iterable[Object], components: Mapping[str, Object]) -> Iterator[str]:
    """The body of errors in another format than a problem, like that of Binance: its codes, and an example."""
    schemas = [each["schema"] for response in responses for each in response["content"].values()]
    for schema in {each["$ref"]: each for each in schemas if "Problem" not in each["$ref"]}.values():
        codes = resolved(schema, components)["properties"]["code"]["enum"]
        listed = f"`code` is one of {', '.join(f'`{code}`' for code in codes)}."
        yield _entry(JSON, "", listed, *_explained(schema, components), _code(_shown(example(schema, components))))


def _codes(document: Object) -> Iterator[str]:
    for code, kind in sorted(document["x-problem-types"].items()):
        for each, about in {code: f"{kind['description']} {kind['remedy']}", **kind["codes"]}.items():
            yield f"<div><dt>{_link(each)} <small>{kind['status']}</small></dt><dd>{marked(about)}</dd></div>\n"


def _link(code: str) -> str:
    return f'<a href="{PROBLEMS}#{code}"><code>{code}</code></a>'


def _phrase(status: str) -> str:
    return http.HTTPStatus(int(status)).phrase


# -- the schemas ------------------------------------------------------------------------------------------------------


def _explained(schema: Object, components: Mapping[str, Object]) -> Iterator[str]:
    """What the named objects of ``schema`` and their members mean, as HTML."""
    found: dict[str, Object] = {}
    _find_objects(schema, components, found)
    for name, each in found.items():
        about = each.get("description", "")
        members: dict[str, list[str]] = {}
        for member, part in each.get("properties", {}).items():
            if meaning := resolved(part, components).get("description"):
                members.setdefault(meaning, []).append(f"`{member}`")
        if about or members:
            lines = [f"`{name}`: {about}" if about else f"`{name}`"]
            lines += [f"{', '.join(names)}: {meaning}" for meaning, names in members.items()]
            yield "<br>".join(map(marked, lines))


def _find_objects(schema: Object, components: Mapping[str, Object], found: dict[str, Object]) -> None:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in found:
            return
        schema = components[name]
        if not schema.keys().isdisjoint({"properties", "items", "anyOf", "allOf"}):
            found[name] = schema
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("allOf", ())]
    for part in [*parts, *([schema["items"]] if schema.get("items") else [])]:
        _find_objects(part, components, found)


# -- HTML -------------------------------------------------------------------------------------------------------------


def _entries(title: str, entries: Iterable[str]) -> str:
    return f"<h4>{escape(title)}</h4>\n<dl>\n{''.join(entries)}</dl>\n"


def _entry(name: str, facts: str, about: str, *more: str) -> str:
    """``facts`` and ``more`` are HTML, ``about`` is text."""
    head = f"<code>{escape(name)}</code>" + (f" <small>{facts}</small>" if facts else "")
    below = "".join(f"<dd>{each}</dd>" for each in (marked(about), *more) if each)
    return f"<div><dt>{head}</dt>{below}</div>\n"


def _code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>\n"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
