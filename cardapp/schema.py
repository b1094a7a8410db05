"""JSON Schema 2020-12 validation as this application means it.

Three things differ from the library's defaults: ``true`` is no integer and no number (nor is ``1.0`` an integer), a
``$`` at the end of a pattern does not let a final line feed through (as in ECMA-262, unlike Python), and every error
is reported, as a JSON pointer (RFC 6901) and a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

from cardapp.errors import FieldError

_types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _checker, value: isinstance(value, int) and not isinstance(value, bool)
).redefine("number", lambda _checker, value: isinstance(value, int | float) and not isinstance(value, bool))


def _pattern(_checker: Validator, pattern: str, value: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


_StrictValidator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, validators={"pattern": _pattern}, type_checker=_types
)


def validator(schema: dict[str, Any], registry: Any = None) -> Validator:
    """A reusable validator of ``schema``; ``registry`` resolves references (none is ever fetched from a network)."""
    found: Validator = _StrictValidator(schema) if registry is None else _StrictValidator(schema, registry=registry)
    return found


def pointer(parts: Iterable[str | int]) -> str:
    """The JSON pointer of a path into a document; "" is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def field_errors(checker: Validator, value: Any) -> tuple[FieldError, ...]:
    """Every way in which ``value`` breaks the schema, in document order; empty when it is valid."""
    found = sorted(checker.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    return tuple(_field_error(error) for error in found)


def _field_error(error: jsonschema.ValidationError) -> FieldError:
    path = pointer(error.absolute_path)
    rule: Any = error.validator_value
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        missing = [name for name in rule if name not in instance]
        return FieldError(path, f"is missing {', '.join(missing)}")
    if error.validator == "additionalProperties" and isinstance(instance, dict):
        known = schema.get("properties", {})
        unknown = [name for name in instance if name not in known]
        return FieldError(path, f"has unknown field(s) {', '.join(unknown)}; known: {', '.join(known) or 'none'}")
    if str(error.validator) in {"oneOf", "anyOf"} and error.context:
        return _closest(error, path)
    return FieldError(path, error.message[:300])


def _closest(error: jsonschema.ValidationError, path: str) -> FieldError:
    """Of a choice, the branch that was meant says more than "is not valid under any of the given schemas": it is the
    one whose fault lies deepest in the value, and of equals the one with the fewest faults."""
    context = error.context or []
    faults = Counter(each.schema_path[0] for each in context)
    meant = max(context, key=lambda each: (len(each.absolute_path), -faults[each.schema_path[0]]), default=None)
    return FieldError(path, error.message[:300]) if meant is None else _field_error(meant)
