"""The ends of frames are found in a stream that arrives in parts of any size. wsproto writes the frames."""

from __future__ import annotations

from itertools import product

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from marketdata.frontend.websocket_frames import Frames, close_frame

SIZES = (0, 1, 125, 126, 127, 65535, 65536)


def written(kind: ConnectionType) -> list[bytes]:
    connection = Connection(kind)
    messages = [BytesMessage(b"x" * size) for size in SIZES]
    return [connection.send(each) for each in (*messages, TextMessage("a"), Ping(b"now"))]


KINDS = (ConnectionType.SERVER, ConnectionType.CLIENT)


def test_the_ends_of_frames_are_found() -> None:
    for kind, step in product(KINDS, (1, 3, 1000, 1 << 20)):
        frames = Frames()
        assert frames.is_between
        for frame in written(kind):
            parts = [frame[start : start + step] for start in range(0, len(frame), step)]
            found = [(frames.follow(part), frames.is_between) for part in parts]
            assert found == [(len(part), False) for part in parts[:-1]] + [(len(parts[-1]), True)], (kind, step)


def test_a_stream_is_read_to_the_end_of_the_frame_that_has_begun() -> None:
    following = b"\x81\x01a"
    for frame in (frame for kind in KINDS for frame in written(kind)):
        for place in range(0, len(frame), max(1, len(frame) // 100)):
            frames = Frames()
            frames.follow(frame[:place])
            read = frames.follow(frame[place:] + following, to_end=True)
            assert read == (len(frame) - place if place else 0)
            assert frames.is_between


def test_a_client_understands_the_close_frame() -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(close_frame(4000, "connect again"))
    (event,) = client.events()
    assert event == CloseConnection(code=4000, reason="connect again")
