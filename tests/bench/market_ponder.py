"""The backfill beside Ponder, another indexer, on one real node: what each asks, and how long it takes.

python -m tests.bench.market_ponder [BLOCKS]      (default 5 000, of which two of five have a swap of one V2 pool)

A proxy between them and the node counts. Ponder comes from the npm registry, and stores the swaps in its own database.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.request import urlopen

from tests.bench.figures import Figure, table
from tests.functional.anvil import CHAIN_ID, EvmPackages
from tests.functional.chain_market import Market
from tests.functional.market_process import ROOT
from tests.functional.registry import NODE, npm_install
from tests.functional.serving import until

PACKAGES = ("ponder@0.16.10", "viem@2.57.20", "hono@4.13.19", NODE)
PORT = 42777
LATE_S = 900.0
FILES = {
    "ponder.schema.ts": """
import { onchainTable } from "ponder";
export const swap = onchainTable("swap", (t) => ({
  id: t.text().primaryKey(), time: t.bigint(),
  in0: t.bigint(), in1: t.bigint(), out0: t.bigint(), out1: t.bigint(),
}));
""",
    "ponder.config.ts": """
import { createConfig } from "ponder";
const abi = [{ type: "event", name: "Swap", anonymous: false, inputs: [
  { indexed: true, name: "sender", type: "address" }, { indexed: false, name: "amount0In", type: "uint256" },
  { indexed: false, name: "amount1In", type: "uint256" }, { indexed: false, name: "amount0Out", type: "uint256" },
  { indexed: false, name: "amount1Out", type: "uint256" }, { indexed: true, name: "to", type: "address" }] }] as const;
export default createConfig({
  chains: { anvil: { id: Number(process.env.CHAIN_ID), rpc: process.env.RPC_URL, disableCache: true } },
  contracts: { Pair: { abi, chain: "anvil", address: process.env.PAIR as `0x${string}`, startBlock: 0 } },
});
""",
    "src/index.ts": """
import { ponder } from "ponder:registry";
import { swap } from "ponder:schema";
ponder.on("Pair:Swap", async ({ event, context }) => {
  const { amount0In: in0, amount1In: in1, amount0Out: out0, amount1Out: out1 } = event.args;
  const id = `${event.block.hash}:${event.log.logIndex}`;
  await context.db.insert(swap).values({ id, time: event.block.timestamp, in0, in1, out0, out1 });
});
""",
    "src/api/index.ts": 'import { Hono } from "hono";\nexport default new Hono();\n',
    "package.json": '{"private": true, "type": "module"}',
}


class CountingProxy:
    """Passes requests on to a node, and counts them and their calls until ``taken``."""

    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self._requests = self._calls = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(port))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="proxy", daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def taken(self) -> tuple[int, int]:
        with self._lock:
            found = self._requests, self._calls
            self._requests = self._calls = 0
        return found

    def _handler(proxy, port: int) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.node = http.client.HTTPConnection("127.0.0.1", port)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = json.loads(body)
                with proxy._lock:
                    proxy._requests += 1
                    proxy._calls += len(asked) if isinstance(asked, list) else 1
                self.node.request("POST", "/", body, {"Content-Type": "application/json"})
                answer = self.node.getresponse().read()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def measure(blocks: int) -> list[Figure]:
    with ExitStack() as stack:
        npm, state, ponder = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="market-", ignore_cleanup_errors=True)))
            for _ in range(3)
        )
        for name, text in FILES.items():
            (ponder / name).parent.mkdir(parents=True, exist_ok=True)
            (ponder / name).write_text(text)
        npm_install(PACKAGES, ponder)
        market = Market(EvmPackages.install(npm), state, durable=True)
        stack.callback(market.close)
        _trade(market, blocks)
        market.api.start()
        proxy = CountingProxy(market.chain.port)
        ways: dict[str, Callable[[], None]] = {
            "backfill into PostgreSQL, with candles": lambda: _backfill(market, proxy.url),
            "Ponder, from its start": lambda: _ponder(ponder, proxy.url, market.route[0].address),
        }
        found = []
        for name, run in ways.items():
            began = perf_counter()
            run()
            seconds, (requests, calls) = perf_counter() - began, proxy.taken()
            found.append(Figure(name, f"{calls:,} calls in {requests:,} requests, {seconds:.1f} s"))
        return found


def _trade(market: Market, blocks: int) -> None:
    pool = market.route[0]
    for number in range(blocks // 5):
        for gap in (2, 3):
            market.exchanges.swap(pool, pool.amounts[0] // 10**5, sell=number % 2 == 0)
            market.chain.mine()
            market.chain("anvil_mine", hex(gap - 1), hex(13))
    market.chain.mine(13)


def _backfill(market: Market, url: str) -> None:
    market.ingestor.configure(url=url, requests_per_s=100_000, pools=[market.route[0].entry()])
    environment = os.environ | {
        "MARKET_STATE_DIR": str(market.api.state_dir), "API_UPSTREAM": f"http://127.0.0.1:{market.api.port}",
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "marketdata", "backfill"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


def _ponder(folder: Path, url: str, pair: str) -> None:
    environment = os.environ | {
        "RPC_URL": url, "PAIR": pair, "CHAIN_ID": str(CHAIN_ID), "HOME": str(folder),
        "PONDER_TELEMETRY_DISABLED": "true",
    }  # fmt: skip
    node = folder / "node_modules" / NODE.rpartition("@")[0] / "bin" / "node"
    program = folder / "node_modules" / "ponder" / "dist" / "esm" / "bin" / "ponder.js"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [node, program, "start", "--schema", "bench", "--port", str(PORT)],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(_is_ready, LATE_S)
    finally:
        process.terminate()
        process.wait()


def _is_ready() -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{PORT}/ready", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)))
