"""What the chart is compared with: the same candles behind FastAPI, uvicorn and asyncpg.

Runs in a throw-away environment that has these; it imports nothing of ours. ``/rows`` answers rows as such an
application usually does, ``/text`` passes through the text that is kept with them, as ours does.
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

_ROWS = "SELECT * FROM md_candles_v1($1, '1h', NULL, $2, 500)"
_KEPT = (
    "SELECT json_prefix FROM md_rollups_1h_v1 WHERE symbol = $1 AND res = 3600 AND bucket <= $2"
    " ORDER BY bucket DESC LIMIT 500"
)
_TEXT = f"""SELECT '[' || string_agg(json_prefix || ',"closed":true,"finalized":true}}', ',') || ']' FROM ({_KEPT}) c"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["BENCH_DATABASE"], min_size=4, max_size=16) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/rows")
async def rows(symbol: str, end: int) -> Any:
    """Rows as dictionaries, decimals as the framework sends them."""
    async with app.state.pool.acquire() as connection:
        found = await connection.fetch(_ROWS, symbol, datetime.fromtimestamp(end / 1000, UTC))
    return {"candles": [dict(row) for row in found]}


@app.get("/text")
async def text(symbol: str, end: int) -> Response:
    """PostgreSQL's text as it is."""
    async with app.state.pool.acquire() as connection:
        found = await connection.fetchval(_TEXT, symbol, datetime.fromtimestamp(end / 1000, UTC))
    return Response(found, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
