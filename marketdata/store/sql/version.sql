-- Creates the tables of one version. store/version.py replaces the names in braces by quoted names. All scripts of a version
-- run in one transaction, in the order version, rollups, ingest, candles.

-- Columns of fixed width come first, which avoids padding. Text has "C" collation, so that ids have the same order on every
-- system.
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
COMMENT ON TABLE {ticks} IS 'Trades. Rows are inserted and deleted, never updated.';
CREATE INDEX {ticks_order} ON {ticks} (symbol, ts, seq, id);
CREATE INDEX {ticks_block} ON {ticks} (symbol, block_hash) WHERE block_hash IS NOT NULL;

-- The stored candles: one row per symbol, level and bucket that contains a tick. The triggers of ticks maintain them. The
-- level res is the width in seconds: 60, 900, 1800, 3600, 14400 or 86400. vwap and json_prefix could be computed from the
-- other columns; they are stored, because computing json_prefix would take longer than the rest of a query. Nearly all
-- updates of the levels 1m, 15m and 1d are heap-only, because their fillfactor is below 100 and no changing column has an
-- index.
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
    -- The row's JSON without closed and finalized, which depend on the time of the query. It is an expression, because
    -- PostgreSQL would parse a function again in every statement for every partition.
    json_prefix text COLLATE "C" GENERATED ALWAYS AS (
        '{{"t":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint
        || ',"T":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint + res * 1000::bigint - 1
        || ',"o":"' || open || '","h":"' || high || '","l":"' || low || '","c":"' || close || '","v":"' || volume
        || '","q":"' || quote || '","n":' || n || ',"vwap":' || coalesce('"' || vwap || '"', 'null')
        || ',"bv":"' || buy_volume || '"') STORED,
    buy_volume numeric NOT NULL,
    buy_quote  numeric NOT NULL,
    PRIMARY KEY (symbol, res, bucket)
) PARTITION BY LIST (res);
-- A partition per level keeps the rows of a level together: a year of days fills ten pages. In a single table, each day would
-- be in a different page, among the minutes of that day.
CREATE TABLE {rollups_1m} PARTITION OF {rollups} FOR VALUES IN (60) WITH (fillfactor = 80);
CREATE TABLE {rollups_15m} PARTITION OF {rollups} FOR VALUES IN (900) WITH (fillfactor = 80);
CREATE TABLE {rollups_30m} PARTITION OF {rollups} FOR VALUES IN (1800) WITH (fillfactor = 80);
CREATE TABLE {rollups_1h} PARTITION OF {rollups} FOR VALUES IN (3600) WITH (fillfactor = 80);
CREATE TABLE {rollups_4h} PARTITION OF {rollups} FOR VALUES IN (14400) WITH (fillfactor = 80);
CREATE TABLE {rollups_1d} PARTITION OF {rollups} FOR VALUES IN (86400) WITH (fillfactor = 80);
-- Candles of other widths are computed from thousands of these rows. A page of a covering index has hundreds of rows of one
-- symbol. In the table the rows of all symbols are mixed, so nearly every row would be in a different page. The cost is that
-- updates of these levels are not heap-only. The level 1m, which has by far the most rows, has no such index.
CREATE INDEX ON {rollups_30m} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
CREATE INDEX ON {rollups_1h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
CREATE INDEX ON {rollups_4h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
COMMENT ON COLUMN {rollups}.quote IS 'Sum of price * size.';
COMMENT ON COLUMN {rollups}.buy_volume IS 'Sum of the sizes of ticks with side buy, where the taker bought; buy_quote is the sum of their price * size.';
COMMENT ON COLUMN {rollups}.max_block IS 'Greatest block number of its ticks; null when none has a block.';

-- Every writer updates the rows of its symbols before it changes their ticks. The row lock serialises the writers of a symbol.
-- version is the counter in the ETag. written_at changes with it. It tells apart equal counters of two histories: after a
-- failover that lost writes, or in a database that was restored from a backup.
CREATE TABLE {symbols} (
    version         bigint NOT NULL,
    written_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finalized_block bigint,
    final_until     timestamptz NOT NULL DEFAULT 'infinity',
    pruned_until    timestamptz NOT NULL DEFAULT '-infinity'
                    CHECK (pruned_until = date_bin('1 day', pruned_until, '1970-01-01Z')),
    symbol          text COLLATE "C" PRIMARY KEY CHECK (symbol ~ '^[A-Za-z0-9:._/-]{{1,64}}$')
) WITH (fillfactor = 50);
COMMENT ON COLUMN {symbols}.version IS 'Increases with every transaction that writes to the symbol.';
COMMENT ON COLUMN {symbols}.written_at IS 'When version was increased last.';
COMMENT ON COLUMN {symbols}.final_until IS 'A closed candle is final when its bucket ends at or before this time, or that of the chain: infinity while the symbol has no block, then -infinity until finalize.';
COMMENT ON COLUMN {symbols}.pruned_until IS 'The line: ticks before this midnight (UTC) were deleted or will be, and are refused; their candles are kept.';

-- Finality that was reported for all symbols of a chain at once. A symbol's candles are final up to the later of both times,
-- its own and that of its chain. So a report for thousands of symbols writes one row.
CREATE TABLE {chains} (
    finalized_block bigint NOT NULL,
    final_until     timestamptz NOT NULL CHECK (isfinite(final_until)),
    chain           text COLLATE "C" PRIMARY KEY CHECK (chain ~ '^[A-Za-z0-9._/-]{{1,62}}$')
) WITH (fillfactor = 50);
COMMENT ON TABLE {chains} IS 'The newest final block of each chain for which finalize named the chain, and the time of this block.';

-- The chain of a symbol CHAIN:NAME is the part before its first colon. A symbol without a colon has no chain.
CREATE FUNCTION {chain_of}(symbol text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT nullif(left(symbol, greatest(strpos(symbol, ':') - 1, 0)), '')
$$;

CREATE TABLE {retracted} (
    block_number bigint,
    symbol       text COLLATE "C" NOT NULL,
    block_hash   text COLLATE "C" NOT NULL,
    PRIMARY KEY (symbol, block_hash)
);
COMMENT ON TABLE {retracted} IS 'Blocks that a reorganisation removed from the chain: their ticks are refused.';

-- A retraction names a block by its hash alone. When the ticks of a block are pruned, the hash of this hash is kept here, so
-- that the retraction can still be refused: 8 bytes per block, which PostgreSQL need not try to compress.
CREATE TABLE {pruned} (
    since     timestamptz NOT NULL,
    max_block bigint NOT NULL,
    symbol    text COLLATE "C" NOT NULL,
    blocks    bigint[] NOT NULL,
    PRIMARY KEY (symbol, since)
);
ALTER TABLE {pruned} ALTER COLUMN blocks SET STORAGE EXTERNAL;
COMMENT ON TABLE {pruned} IS 'The blocks whose ticks were pruned. A row has the blocks of a number of successive ticks of one day (UTC).';
COMMENT ON COLUMN {pruned}.since IS 'The time of the first of these ticks.';
COMMENT ON COLUMN {pruned}.blocks IS 'hashtextextended(block_hash, 0) of each block; several rows may name the same block.';
COMMENT ON COLUMN {pruned}.max_block IS 'Greatest number of these blocks; the greatest bigint if one has no number.';

CREATE TABLE {coverage} (
    "from" timestamptz NOT NULL,
    "to"   timestamptz NOT NULL,
    symbol text COLLATE "C" NOT NULL,
    state  text COLLATE "C" NOT NULL CHECK (state IN ('indexed', 'joined', 'failed')),
    PRIMARY KEY (symbol, "from"),
    CHECK ("from" < "to")
);
COMMENT ON TABLE {coverage} IS 'Time ranges [from, to) that were read from a source; those of a symbol never overlap.';
COMMENT ON COLUMN {coverage}.symbol IS 'CHAIN:* for a range of a chain: it extends the ranges of the chain''s symbols that end within it.';

-- How far files were imported (operations/tick_import.py). A row changes in the transaction of each batch.
CREATE TABLE {imports} (
    rows        bigint NOT NULL,
    position    bigint NOT NULL,
    created     bigint NOT NULL,
    duplicates  bigint NOT NULL,
    rejected    bigint NOT NULL,
    is_complete boolean NOT NULL,
    file        text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE {imports} IS 'Imported files: the rows that were read, and the position of the next one in the unpacked bytes of CSV.';
COMMENT ON COLUMN {imports}.file IS 'SHA-256 of the size, the time of change and the first bytes of the file.';

-- The row type of the candles function. It is an empty table, because GraphQL engines track only functions that return rows
-- of a tracked table.
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
    buy_volume  numeric NOT NULL,
    buy_quote   numeric NOT NULL,
    PRIMARY KEY (symbol, bucket, t)
);
COMMENT ON COLUMN {candle}.json_prefix IS 'The beginning of the row''s JSON, where it is stored; else null.';
COMMENT ON TABLE {candle} IS 'Always empty: the row type of the candles function.';
