from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.card.strategy import Strategy
from cardapp.errors import NotFound
from cardapp.layout.compose import compose
from cardapp.publish import layouts
from cardapp.reports import lesson
from cardapp.reports.explained import Explanations
from cardapp.state import events
from cardapp.state.events import GENESIS, Head
from tests.cardapp.layout.hostile import shipped
from tests.cardapp.layout.markup import read

Make = Callable[..., dict[str, Any]]
NAME = "ab" * 32 + ".png"
TAGS = re.compile(
    "html|head|meta|title|style|body|header|section|main|footer|article|div|p|h[123]|span|strong|em|a|code|time|"
    "blockquote|d[ltd]|table|thead|tbody|t[rhd]|figure|figcaption|img|details|summary|ol|li|svg|desc|g|rect|circle|path|text"
)
ATTRIBUTES = re.compile(
    "lang|charset|http-equiv|content|name|class|id|href|src|alt|width|height|datetime|title|scope|role|"
    "aria-(label|labelledby|hidden|current)|viewbox|preserveaspectratio|cx|cy|r|x|y|rx|d|stroke-dasharray|transform|xmlns|data-key|"
    "font-size|textlength|lengthadjust|color|fill|fill-opacity|stroke|stroke-width"
)


class Read:
    """What a report shows. Its elements and attributes are known, and it has no address elsewhere."""

    def __init__(self, source: str) -> None:
        page = read(source)
        names = {name for element in page.all() for name in element.attributes}
        assert [each.name for each in page.all() if not TAGS.fullmatch(each.name)] == []
        assert [name for name in names if not ATTRIBUTES.fullmatch(name)] == []
        self.links = [link.attributes["href"] for link in page.all("a")]
        assert [link for link in self.links if not link.startswith(("http://127.0.0.1:8080/#", "#e"))] == []
        images = [image.attributes["src"].partition(",") for image in page.all("img")]
        assert {head for head, _, _ in images} <= {"data:image/png;base64", "data:image/jpeg;base64"}
        self.pictures = [base64.b64decode(content) for _, _, content in images]
        self.entries = [article.attributes["id"] for article in page.all("article")]
        self.text = page.text
        for style in page.all("style"):
            self.text = self.text.replace(style.text, "")


EMPTY = Head(0, GENESIS)


def picture(name: str) -> bytes:
    if name != NAME:
        raise NotFound(f"there is no evidence {name}")
    return b"picture bytes"


def made(parts: dict[str, Any], events: Sequence[dict[str, Any]], current: str = "") -> str:
    head = Head(events[-1]["seq"], events[-1]["hash"]) if events else EMPTY
    return "".join(lesson.render(events=events, head=head, total=head.seq, picture=picture, current=current, **parts))


def pinned(**members: Any) -> dict[str, Any]:
    return {
        "seq": 1, "withdrawn": False, "name": NAME, "media_type": "image/png", "size": 13, "width": 40, "height": 30,
        "caption": "the arena <full>", "at": "2025-03-01T10:00:09.000Z",
    } | members  # fmt: skip


OBSERVED: dict[str, Any] = {
    "file": "arena.c", "line": 31, "function": "arena_alloc", "method": "rerun",
    "checks": [
        {"name": "line", "expected": "31", "actual": "31", "match": True},
        {"name": "a.used", "expected": "48", "actual": "64", "match": False},
        {"name": "a.n", "expected": "2", "actual": None, "match": False},
    ],
    "values": {
        "a.used": {"value": "64", "error": None},
        "p": {"value": '0x10 "<hi>"', "error": None},
        "q": {"value": None, "error": "no symbol q"},
    },
    "allocator": {
        "base": 4096, "size": 128, "used": 64, "high_water": 96,
        "blocks": [{"offset": 0, "size": 24, "label": "na<me"}, {"offset": 32, "size": 32, "label": None}],
    },
}  # fmt: skip


# -- the file ------------------------------------------------------------------------------------------------------


def test_strategies_and_annotations_stand_beside_their_step(parts: dict[str, Any]) -> None:
    loaded, step = shipped("arena"), "bump/anatomy/empty/fields"
    document = compose(loaded.card, loaded.identity, layouts.find("karta-classic").arranged("html"), loaded.sources())
    annotations = [
        {"key": f"{step}/initialised", "visible": visible, "text": f"A {kind} <img src=x>", "style": {"kind": kind},
         "target": {"part": f"{step}:{part}", "x": 0.1, "y": 0.1, "w": 0.5, "h": 0.5},
         "geometry": {"points": [[0.1, 0.1], [0.6, 0.6]]}}
        for kind, part, visible in (("box", "code", True), ("arrow", "no_such", True), ("marker", "code", False))
    ]  # fmt: skip
    strategy = Strategy("s1", f"{step}/initialised", "Look <b>", ("print a", "next"), ("0 <1>", None))
    text = made({**parts, "explanations": Explanations([strategy], annotations, lambda: document)}, [])
    shown = Read(text).text
    for words in ("Look <b>", "print a", "0 <1>", "next", "box: A box <img", "arrow: A arrow <img"):
        assert words in shown
    assert "A marker" not in shown
    (section,) = re.findall('<section class="explained">.*?</section>', text, re.DOTALL)
    assert section.count("<svg") == 1, "a part that is not on the sheets has no picture"
    assert "unsigned char *base;" in unescape(section)


def test_the_file_needs_nothing_else_and_says_so(parts: dict[str, Any], event: Make) -> None:
    text = made(parts, [event(evidence=[pinned()])])
    Read(text)
    assert text.startswith("<!DOCTYPE html>")
    style = re.search("<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in lesson.CONTENT_SECURITY_POLICY
    assert set(re.findall(r"url\((.{12})", style[1])) == {'"data:font/w'}
    assert "@import" not in style[1]


def test_the_head_tells_learner_card_and_progress_and_the_digests_come_last(parts: dict[str, Any]) -> None:
    read = Read(made(parts, []))
    told = ("Ada <L.>", "Arenas | & <more>", "1.0.0", "2 March 2025, 12:30:00 UTC", "No events yet", "u-1", "ab" * 32)
    shown = read.text.partition("· lesson report ·")[2]  # after the title
    places = [shown.index(text, shown.index("Ada")) for text in told]
    assert places == sorted(places)
    assert read.text.rstrip().endswith("ab" * 32)
    assert "1 of 3 steps approved" in read.text
    assert "33%" in read.text
    assert "Bump <up>1 / 2" in read.text
    assert "Reset0 / 1" in read.text
    assert "1match the card1last replay not ready1never replayed" in read.text
    assert "No events yet" in read.text
    said = "The links work on the computer where the application runs, at http://127.0.0.1:8080, and on no other."
    assert said in read.text


def test_entries_keep_their_order_under_their_day(parts: dict[str, Any], event: Make) -> None:
    events = [
        event(at="2025-03-01T23:59:59.900Z", data={"text": "late"}),
        event(at="2025-03-02T00:00:01.000Z", data={"text": "early"}),
        event(at="2025-03-02T00:00:02.000Z", data={"text": "later"}),
    ]
    read = Read(made(parts, events))
    assert read.entries == ["e1", "e2", "e3"]
    places = [read.text.index(text) for text in ("1 March 2025", "late", "2 March 2025\n", "early", "later")]
    assert places == sorted(places)
    assert read.text.count("\n2 March 2025\n") == 1


def test_every_entry_tells_when_who_and_where_and_links_there(parts: dict[str, Any], event: Make) -> None:
    for kind in sorted(events.BACKEND_KINDS - {"event.withdrawn"} | {"note", "x-quiz"}):
        data = {"viewer.editor.sync": True} if kind == "viewer.changed" else {}
        pinned_to = [pinned()] if kind in ("navigation.set", "navigation.moved") else []
        made_of = event(kind, data=data, actor="Ada L.", key="t1/b1/p1/s1/end", evidence=pinned_to)
        read = Read(made(parts, [made_of]))
        assert len(read.entries) == 1, kind
        assert re.search(r"10:00:\d\d", read.text)
        assert "Ada L." in read.text
        assert "Bump <up> › Block & goal › Phase › First › End of First" in read.text
        assert "http://127.0.0.1:8080/#t1/b1/p1/s1/end" in read.links


def test_the_card_itself_a_lost_position_and_another_source_are_places_too(parts: dict[str, Any], event: Make) -> None:
    assert Read(made(parts, [event(key="")])).links.count("http://127.0.0.1:8080/#") == 2
    card = {"id": "arena", "version": "0.9", "source_sha256": "cd" * 32}
    read = Read(made(parts, [event(key="t7/gone", card=card)]))
    assert "t7/gone no longer in this card" in read.text
    assert "card 0.9, another source revision" in read.text


def test_each_event_is_described_in_words(parts: dict[str, Any], event: Make) -> None:
    for kind, data, text in (
        ("navigation.set", {"sync_requested": False}, "Went to “First”"),
        ("navigation.moved", {"level": "step", "delta": -1, "moved": -1}, "Moved back to “First”"),
        ("navigation.moved", {"level": "step", "delta": 5, "moved": 2}, "Moved on to “First”"),
        ("navigation.synced", {"generation": 4}, "The program was brought to the position"),
        ("checkpoint.ready", {"observed": OBSERVED}, "The program stopped at arena.c:31 in arena_alloc()"),
        ("checkpoint.failed", {"code": "snapshot_drift", "reason": "-"}, "The program state differs from the card"),
        ("checkpoint.failed", {"code": "target_crashed", "reason": "SIGSEGV"}, "The replay failed"),
        ("checkpoint.rejected", {"code": "stale_generation", "reason": "too old"}, "too old stale_generation"),
        ("checkpoint.timeout", {"duration_ms": 30000.4, "generation": 3}, "30000 ms · generation 3"),
        ("sync.off", {"reason": "target_reset"}, "SYNC went off: target reset"),
        ("session.restored", {"restored": [{"file": "a.c", "backup": "a.c.orig"}]}, "copy of the sources was restored"),
        ("progress.changed", {"to": "approved", "note": "clear"}, "Approved “First”"),
        ("progress.changed", {"to": "approved", "note": "clear"}, "Why does First work?"),
        ("progress.changed", {"to": "pending", "note": "hm"}, "“First” is pending again"),
        ("viewer.changed", {"viewer.allocator.visible": True}, "The allocator model was shown"),
        ("viewer.changed", {"viewer.editor.sync": False, "scroll.page_index": 3}, "scroll.page_index became 3"),
        ("evidence.added", {"event_seq": 7, "caption": "a picture"}, "“a picture”, shown at entry 7."),
        ("evidence.added", {"event_seq": None}, "An image was added"),
        ("note", {"text": "my `a.used` note"}, "my a.used note"),
        ("x-quiz", {"text": "Quiz", "score": 8, "who": "Ada"}, "score8whoAda"),
        ("x-prediction", {"values": {"a.used": "48", "a.n": "2"}}, "a.used48a.n2"),
        ("x-answer", {"text": "It bumps."}, "Answered"),
        ("x-revealed", {"text": "They were shown."}, "The values were shown"),
        ("x-self", {"self": "partly"}, "Own answer right: partly"),
        ("x-hint", {"hint": 2}, "Opened hint 2"),
        ("prediction.judged", {"right": {"a": True}}, "1 of 1 predicted value right"),
        ("prediction.judged", {"right": {"a": True, "b": False, "c": None}}, "1 of 2 predicted values right"),
        ("prediction.judged", {"right": {"a": True}, "by": "card"}, "1 of 1 predicted value right, by the card"),
        ("prediction.judged", {"right": {"a": None}}, "The prediction was not judged"),
        ("strategy.added", {"label": "Step <over>"}, "Added the strategy “Step <over>”"),
        ("annotation.added", {"style": {"kind": "arrow"}, "text": "Look `here`"}, "Annotated the sheet: arrow"),
        ("annotation.added", {"style": {"kind": "arrow"}, "text": "Look `here`"}, "Look here"),
        ("annotation.hidden", {"ids": ["a1", "a2"]}, "2 annotations were hidden"),
        ("annotation.shown", {"ids": ["a1"]}, "An annotation was shown"),
        ("annotation.removed", {}, "Removed an annotation: drawing"),
    ):
        assert text in Read(made(parts, [event(kind, data=data, evidence=[pinned()])])).text


def test_a_judgement_shows_what_was_said_beside_what_there_is(parts: dict[str, Any], event: Make) -> None:
    data = {
        "prediction": 1,
        "said": {"a.used": "48", "a.n": "2", "p": "0"},
        "seen": {"a.used": "0x30", "a.n": "3", "p": "undefined"},
        "right": {"a.used": True, "a.n": False, "p": None},
    }
    for by in ("program", "card"):
        text = made(parts, [event("prediction.judged", data={**data, "by": by})])
        assert f"PredictedSaidThe {by} has\na.used480x30✓a.n23✗p0undefined\n" in Read(text).text
        assert re.findall('<tr class="(equal|different|seen)">', text) == ["equal", "different", "seen"]
    for right, tone in (({"a": True, "b": None}, "good"), ({"a": True, "b": False}, "warn"), ({"b": None}, "quiet")):
        judgement = made(parts, [event("prediction.judged", data={"right": right})])
        assert f'<article class="entry {tone}"' in judgement


def test_a_checkpoint_shows_its_proof_and_the_arena(parts: dict[str, Any], event: Make) -> None:
    text = Read(made(parts, [event("checkpoint.failed", data={"observed": OBSERVED, "code": "snapshot_drift"})])).text
    for words in (
        "line3131✓", "a.used4864✗", "a.n2–✗", 'p0x10 "<hi>"', "qno symbol q",
        "64 of 128 bytes used (50%), 2 blocks, high water 96", "padding: 8 bytes at offset 24",
        "na<me: 24 bytes at offset 0",
    ):  # fmt: skip
        assert words in text
    assert text.count("a.used") == 1
    for change in ({"size": 0}, {"used": None}, {"blocks": [{"size": 3}]}, {"base": None}):  # cannot be drawn
        observed = OBSERVED | {"allocator": OBSERVED["allocator"] | change}
        page = made(parts, [event("checkpoint.ready", data={"observed": observed})])
        assert 'class="arena"' not in page
        Read(page)


def test_pictures_are_inside_with_their_captions(parts: dict[str, Any], event: Make) -> None:
    two = pinned(caption="two", media_type="image/jpeg")
    read = Read(made(parts, [event(evidence=[pinned(), two, pinned(name="gone.png")])]))
    assert read.pictures == [b"picture bytes"] * 2
    for said in ("the arena <full> 10:00:09", "two 10:00:09", "the arena <full> there is no evidence gone.png"):
        assert said in read.text


# -- where the card is open --------------------------------------------------------------------------------------


def test_the_activity_of_the_card_marks_where_it_is_open(parts: dict[str, Any]) -> None:
    block = "Bump <up> › Block & goal"
    for current, marked, said in (
        ("t1/b1/p1/s1/end", "1.1 Block & goal", f"Current position: {block} › Phase › First › End of First"),
        ("t1/b1", "1.1 Block & goal", f"Current position: {block}"),
        ("t2", "2 Reset", "Current position: Reset"),
        ("", "Begin", "No position is selected. The beginning of the card is marked."),
    ):
        text = made(parts, [], current)
        (title,) = re.findall('aria-current="location"[^>]*><title>(.*?)</title>', text)
        assert unescape(title) == marked
        read = Read(text)
        assert f"{said}\n" in read.text
        places = [read.text.index(words) for words in ("steps approved", said, "Events\n")]
        assert places == sorted(places)
    drawn = re.search('<svg[^>]* class="diagram activity".*?</svg>', text, re.DOTALL)
    assert drawn is not None
    assert Read(drawn[0]).links == [f"http://127.0.0.1:8080/#{key}" for key in ("t1", "t2", "t1/b1", "t2/b1")]


# -- what is left out ----------------------------------------------------------------------------------------------


def test_scrolling_and_other_cards_are_left_out_and_counted(parts: dict[str, Any], event: Make) -> None:
    scrolled = event("viewer.changed", data={"scroll.page_index": 4})
    pictured = event("viewer.changed", data={"scroll.page_index": 5}, evidence=[pinned()])
    event()  # the third is of another card
    read = Read(made(parts, [scrolled, pictured, event(data={"text": "own"})]))
    assert read.entries == ["e2", "e4"]
    assert "2 entries; left out: 1 of scrolling and moving and 1 of other cards" in read.text
    assert f"last event is 4, and its hash is {4:064x}" in read.text


# -- what people and programs typed --------------------------------------------------------------------------------

NASTY = "\"'><script>alert(1)</script><img src=x onerror=y>`<b>`\0\ud800 javascript:&amp;<!--"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(events.BACKEND_KINDS)) | st.just("note") | st.just("x-a"),
    st.just(NASTY) | st.text(),
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()), max_size=3),
)
def test_any_event_makes_a_sound_page(
    parts: dict[str, Any], event: Make, kind: str, text: str, data: dict[str, Any]
) -> None:
    read = Read(made(parts, [event(kind, actor=text, key=text, data={"text": text, "reason": text, **data})]))
    assert len(read.entries) <= 1
