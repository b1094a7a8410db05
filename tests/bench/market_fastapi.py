"""What the chart is compared with: the same candles function behind FastAPI, uvicorn and asyncpg.

Runs in a throw-away environment that has these; it imports nothing of ours. ``/rows`` answers rows as such an
application usually does, ``/text`` passes through what PostgreSQL made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI, Response

_FROM = "FROM md_candles_v1($1, '1h', NULL, $2, 500)"
_TEXT = f"""SELECT '[' || string_agg(format('{{"t":%s,"o":"%s","h":"%s","l":"%s","c":"%s","v":"%s","q":"%s","n":%s}}',
    extract(epoch FROM t)::bigint * 1000, open, high, low, close, volume, quote, n), ',') || ']' {_FROM}"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["BENCH_DATABASE"], min_size=4, max_size=16) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


def _end(number: int) -> datetime:
    return datetime.fromtimestamp(1_704_000_000 + number % 10**6, UTC)


@app.get("/rows")
async def rows(symbol: str, n: int) -> Any:
    """Rows as dictionaries, decimals as the framework sends them."""
    async with app.state.pool.acquire() as connection:
        found = await connection.fetch(f"SELECT * {_FROM}", symbol, _end(n))
    return {"candles": [dict(row) for row in found]}


@app.get("/text")
async def text(symbol: str, n: int) -> Response:
    """PostgreSQL's text as it is."""
    async with app.state.pool.acquire() as connection:
        found = await connection.fetchval(_TEXT, symbol, _end(n))
    return Response(found, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
