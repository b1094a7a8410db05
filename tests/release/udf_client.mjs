// Uses the data feed as a chart does. TradingView's UDF adapter, from the package @orderly.network/trading-view, reads
// the configuration and the bars. The package lacks the adapter's other functions (a symbol, the search, the quotes,
// the time). For these the adapter's requester is used, according to the protocol's documentation.
//
//   API=http://… TOKEN=md_… node udf_client.mjs        (in a folder that holds the package)
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { API, TOKEN } = process.env;
const PAGE = 300;

const asked = [];

// A page uses a feed on its own host and sends no token. The proxy between them knows the feed's host and adds the
// token.
const plain = globalThis.fetch;
globalThis.fetch = (url, options = {}) => {
    asked.push(url);
    const headers = { ...options.headers, Authorization: `Bearer ${TOKEN}` };
    return plain(url.replace(`${API}/tv/`, `${API}/v1/udf/`), { ...options, headers });
};

const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { Datafeed } = require("@orderly.network/trading-view");
const nothing = () => {};
const feed = new Datafeed(API, { on: nothing, subscribe: nothing });

const configuration = await new Promise((resolve) => feed.onReady(resolve));
const get = async (path) => (await fetch(`${API}/tv/${path}`)).text();
const send = (path, parameters) => feed._requester.sendRequest(`${API}/tv`, path, parameters);
const found = await send("search", { limit: 30, query: "UDF:", type: "", exchange: "" });
const elsewhere = await send("search", { limit: 30, query: "ETH", type: "", exchange: "OTHER" });
const info = await send("symbols", { symbol: found[0].ticker });
const time = Number(await get("time"));

const bars = (symbol, resolution, period) =>
    new Promise((resolve) => {
        const refused = (reason) => resolve({ error: String(reason) });
        feed.getBars(symbol, resolution, period, (list, meta) => resolve({ list, meta }), refused);
    });

// Read back through history, as a scrolled chart does: request `PAGE` bars before the oldest known bar, until there
// are none. The loop must also end if a feed returns the same bars again.
const PAGES_MAX = 9;

async function history(resolution, seconds) {
    const pages = [];
    let to = time + seconds;
    let page;
    for (let n = 0; n < PAGES_MAX; n++) {
        page = await bars(info, resolution, { from: to - PAGE * seconds, to, countBack: PAGE });
        if (page.error !== undefined || page.meta.noData) break;
        pages.push(page.list);
        to = page.list[0].time / 1000;
    }
    return { pages, end: page };
}

const minutes = await history("1", 60);
const first = minutes.pages.at(-1)[0].time / 1000;
console.log(
    JSON.stringify({
        configuration,
        found,
        info,
        time,
        minutes,
        days: await history("1D", 86400),
        gap: await bars(info, "1", { from: first + 60, to: first + 180 }),
        empty: await bars(info, "1", { from: first + 60, to: first + 120 }),
        unknown: await bars({ ticker: "NO:SUCH" }, "1", { from: 0, to: time, countBack: 2 }),
        elsewhere,
        quotes: await send("quotes", { symbols: [found[0].ticker, "NOW:BTC-USD", "NO:SUCH"] }),
        asked,
    }),
);
