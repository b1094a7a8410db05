"""Says how predictions are understood, before they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cardapp.card.constant import language_of
from cardapp.card.model import Snapshot
from cardapp.card.prediction import expected_at, judge, names_in, unasked
from cardapp.card_loader import ServedCard
from cardapp.errors import InvalidValue
from cardapp.schema import pointer
from cardapp.web.http import Reply, Request, answer


def read(request: Request) -> Reply:
    """How each text is understood, as the language of the program reads it. Only the kind of the stop's value is used,
    and nothing is stored. Names of constants are known while a session has a program that does not run."""
    services, values = request.services, request.body["values"]
    loaded = services.card_loader.current()
    snapshot = stop_that_asks(loaded, request.body["key"], values, ["values"])
    language = language_of(loaded.card.target.sources)
    names = names_in(values, snapshot, None, language)
    constants = services.program.constants(sorted(names)) if names else {}
    found = {each: judge(text, expected_at(snapshot, each), None, language, constants) for each, text in values.items()}
    return answer({"values": {each: judgement.reading._asdict() for each, judgement in found.items()}})


def stop_that_asks(loaded: ServedCard, key: str, values: Mapping[str, str], place: Sequence[str]) -> Snapshot:
    """The stop ``key``, which must ask for all expressions of ``values``, which stand at ``place`` in the body."""
    snapshot = loaded.catalog.snapshots.get(key)
    if snapshot is None:
        raise InvalidValue.of("/key", f"{key!r} is not a snapshot; give task/block/phase/step/snapshot")
    for expression in unasked(snapshot, values):
        asked = ", ".join(snapshot.ask) or "nothing"
        raise InvalidValue.of(pointer([*place, expression]), f"is not asked at this stop, which asks {asked}")
    return snapshot
