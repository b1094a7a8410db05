-- The tables of one version. Names in braces are filled in, quoted, by store/version.py; the scripts of a version run in one
-- transaction, in the order version, rollups, ingest, candles.

-- Fixed-width columns come first, so that no row pays for padding. "C" collation: ids order by their bytes, everywhere alike.
CREATE TABLE {ticks} (
    ts           timestamptz NOT NULL CHECK (ts >= '1970-01-01Z' AND ts < '3000-01-01Z'),
    seq          bigint NOT NULL DEFAULT 0,
    block_number bigint CHECK (block_number >= 0),
    symbol       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    price        numeric NOT NULL CHECK (price > 0 AND price < 'Infinity'),
    size         numeric NOT NULL CHECK (size >= 0 AND size < 'Infinity'),
    side         text COLLATE "C" CHECK (side IN ('buy', 'sell')),
    block_hash   text COLLATE "C",
    tx           text COLLATE "C",
    PRIMARY KEY (symbol, id)
);
COMMENT ON TABLE {ticks} IS 'Trades. A row never changes: the same id with another body is a conflict.';
CREATE INDEX {ticks_order} ON {ticks} (symbol, ts, seq, id);
CREATE INDEX {ticks_block} ON {ticks} (symbol, block_hash) WHERE block_hash IS NOT NULL;

-- One row per symbol, level (res: seconds, 60, 900, 1800, 3600, 14400, 86400) and bucket that holds a tick; kept by the triggers of
-- ticks. What follows from the other columns is kept too where reading it costs less than making it: vwap, and the text of
-- the answer, which takes longer to make than all the rest of the query.
-- Where no column of an index ever changes (1m, 15m and 1d), nearly every update is a heap-only one, with room left in the page.
CREATE TABLE {rollups} (
    bucket    timestamptz NOT NULL,
    first_ts  timestamptz NOT NULL,
    first_seq bigint NOT NULL,
    last_ts   timestamptz NOT NULL,
    last_seq  bigint NOT NULL,
    n         bigint NOT NULL,
    max_block bigint,
    res       integer NOT NULL,
    symbol    text COLLATE "C" NOT NULL,
    open      numeric NOT NULL,
    high      numeric NOT NULL,
    low       numeric NOT NULL,
    close     numeric NOT NULL,
    volume    numeric NOT NULL,
    quote     numeric NOT NULL,
    vwap      numeric,
    first_id  text COLLATE "C" NOT NULL,
    last_id   text COLLATE "C" NOT NULL,
    -- The row's JSON but for its end, closed and finalized, which depend on when it is asked. An expression, not a function:
    -- PostgreSQL would parse that anew with every statement, for every partition.
    json_prefix text COLLATE "C" GENERATED ALWAYS AS (
        '{{"t":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint
        || ',"T":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint + res * 1000::bigint - 1
        || ',"o":"' || open || '","h":"' || high || '","l":"' || low || '","c":"' || close || '","v":"' || volume
        || '","q":"' || quote || '","n":' || n || ',"vwap":' || coalesce('"' || vwap || '"', 'null')) STORED,
    PRIMARY KEY (symbol, res, bucket)
) PARTITION BY LIST (res);
-- A level apart lies in few pages: a year of days is ten pages, not one of them in each of 365 among the minutes of that day.
CREATE TABLE {rollups_1m} PARTITION OF {rollups} FOR VALUES IN (60) WITH (fillfactor = 80);
CREATE TABLE {rollups_15m} PARTITION OF {rollups} FOR VALUES IN (900) WITH (fillfactor = 80);
CREATE TABLE {rollups_30m} PARTITION OF {rollups} FOR VALUES IN (1800) WITH (fillfactor = 80);
CREATE TABLE {rollups_1h} PARTITION OF {rollups} FOR VALUES IN (3600) WITH (fillfactor = 80);
CREATE TABLE {rollups_4h} PARTITION OF {rollups} FOR VALUES IN (14400) WITH (fillfactor = 80);
CREATE TABLE {rollups_1d} PARTITION OF {rollups} FOR VALUES IN (86400) WITH (fillfactor = 80);
-- What other buckets are put together from is read by the thousand: out of an index that holds the values, hundreds of rows of
-- a symbol in one page. In the table those of all symbols lie between each other, so that nearly each is in a page of its own.
-- These rows pay for it with heap-only updates; minutes, of which there are most, keep them.
CREATE INDEX ON {rollups_30m} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
CREATE INDEX ON {rollups_1h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
CREATE INDEX ON {rollups_4h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
COMMENT ON COLUMN {rollups}.quote IS 'Sum of price * size.';
COMMENT ON COLUMN {rollups}.max_block IS 'Greatest block number of its ticks; null when none has a block.';

-- Every writer updates the rows of its symbols before it touches their ticks: that is the lock, and the ETag's counter.
CREATE TABLE {symbols} (
    version         bigint NOT NULL,
    finalized_block bigint,
    symbol          text COLLATE "C" PRIMARY KEY CHECK (symbol ~ '^[A-Za-z0-9:._/-]{{1,64}}$')
) WITH (fillfactor = 50);
COMMENT ON COLUMN {symbols}.version IS 'Grows with every transaction that wrote to the symbol.';

CREATE TABLE {retracted} (
    block_number bigint,
    symbol       text COLLATE "C" NOT NULL,
    block_hash   text COLLATE "C" NOT NULL,
    PRIMARY KEY (symbol, block_hash)
);
COMMENT ON TABLE {retracted} IS 'Blocks that a reorganisation took away: their late ticks are not stored.';

CREATE TABLE {coverage} (
    "from" timestamptz NOT NULL,
    "to"   timestamptz NOT NULL,
    symbol text COLLATE "C" NOT NULL,
    state  text COLLATE "C" NOT NULL CHECK (state IN ('indexed', 'failed')),
    PRIMARY KEY (symbol, "from"),
    CHECK ("from" < "to")
);
COMMENT ON TABLE {coverage} IS 'Which times a source has been read for: ranges [from, to) that never overlap.';

-- The row type of the candles function. A table, and an empty one, because GraphQL engines track functions that return
-- rows of a table that they track.
CREATE TABLE {candle} (
    symbol    text COLLATE "C" NOT NULL,
    bucket    text COLLATE "C" NOT NULL,
    t         timestamptz NOT NULL,
    t_end     timestamptz NOT NULL,
    open      numeric NOT NULL,
    high      numeric NOT NULL,
    low       numeric NOT NULL,
    close     numeric NOT NULL,
    volume    numeric NOT NULL,
    quote     numeric NOT NULL,
    n         bigint NOT NULL,
    vwap      numeric,
    closed    boolean NOT NULL,
    finalized boolean NOT NULL,
    json_prefix text COLLATE "C",
    PRIMARY KEY (symbol, bucket, t)
);
COMMENT ON COLUMN {candle}.json_prefix IS 'The beginning of the row''s JSON, where it is kept ready.';
COMMENT ON TABLE {candle} IS 'Always empty: the row type of the candles function.';
