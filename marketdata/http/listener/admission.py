"""The type of the callback that decides, from the head of a request, whether its body is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from marketdata.http.reply import Reply

Admit = Callable[[Mapping[str, str], bool], int | Reply | None]
"""``admit(head, may_block)`` returns the maximum size of the body in bytes, or the reply that refuses the request.

It returns None if the decision needs the database and ``may_block`` is False. ``head`` contains the variables of the
WSGI environment that come from the head of the request, and ``REMOTE_ADDR``.
"""
