"""What the listener asks of the application before it keeps the body of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from marketdata.api.http import Reply

Admit = Callable[[Mapping[str, str], bool], int | Reply | None]
"""``admit(head, may_block)``: how many bytes the body may have, or the reply that refuses the request. ``head`` is the
WSGI environment as far as the head gives it. None when the answer needs the database and ``may_block`` is False."""
