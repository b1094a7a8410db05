-- The scripts of a version as the release before final_until had them, without their comments.
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
    json_prefix text COLLATE "C" GENERATED ALWAYS AS (
        '{{"t":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint
        || ',"T":' || (date_part('epoch', bucket AT TIME ZONE 'UTC') * 1000)::bigint + res * 1000::bigint - 1
        || ',"o":"' || open || '","h":"' || high || '","l":"' || low || '","c":"' || close || '","v":"' || volume
        || '","q":"' || quote || '","n":' || n || ',"vwap":' || coalesce('"' || vwap || '"', 'null')) STORED,
    PRIMARY KEY (symbol, res, bucket)
) PARTITION BY LIST (res);
CREATE TABLE {rollups_1m} PARTITION OF {rollups} FOR VALUES IN (60) WITH (fillfactor = 80);
CREATE TABLE {rollups_15m} PARTITION OF {rollups} FOR VALUES IN (900) WITH (fillfactor = 80);
CREATE TABLE {rollups_30m} PARTITION OF {rollups} FOR VALUES IN (1800) WITH (fillfactor = 80);
CREATE TABLE {rollups_1h} PARTITION OF {rollups} FOR VALUES IN (3600) WITH (fillfactor = 80);
CREATE TABLE {rollups_4h} PARTITION OF {rollups} FOR VALUES IN (14400) WITH (fillfactor = 80);
CREATE TABLE {rollups_1d} PARTITION OF {rollups} FOR VALUES IN (86400) WITH (fillfactor = 80);
CREATE INDEX ON {rollups_30m} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
CREATE INDEX ON {rollups_1h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
CREATE INDEX ON {rollups_4h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, max_block);
COMMENT ON COLUMN {rollups}.quote IS 'Sum of price * size.';
COMMENT ON COLUMN {rollups}.max_block IS 'Greatest block number of its ticks; null when none has a block.';
CREATE TABLE {symbols} (
    version         bigint NOT NULL,
    finalized_block bigint,
    symbol          text COLLATE "C" PRIMARY KEY CHECK (symbol ~ '^[A-Za-z0-9:._/-]{{1,64}}$')
) WITH (fillfactor = 50);
COMMENT ON COLUMN {symbols}.version IS 'Increases with every transaction that writes to the symbol.';
CREATE TABLE {retracted} (
    block_number bigint,
    symbol       text COLLATE "C" NOT NULL,
    block_hash   text COLLATE "C" NOT NULL,
    PRIMARY KEY (symbol, block_hash)
);
COMMENT ON TABLE {retracted} IS 'Blocks that a reorganisation removed from the chain: their ticks are refused.';
CREATE TABLE {coverage} (
    "from" timestamptz NOT NULL,
    "to"   timestamptz NOT NULL,
    symbol text COLLATE "C" NOT NULL,
    state  text COLLATE "C" NOT NULL CHECK (state IN ('indexed', 'failed')),
    PRIMARY KEY (symbol, "from"),
    CHECK ("from" < "to")
);
COMMENT ON TABLE {coverage} IS 'Time ranges [from, to) that were read from a source; they never overlap.';
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
COMMENT ON COLUMN {candle}.json_prefix IS 'The beginning of the row''s JSON, where it is stored; else null.';
COMMENT ON TABLE {candle} IS 'Always empty: the row type of the candles function.';
CREATE FUNCTION {vwap}(quote numeric, volume numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN volume > 0 THEN trim_scale(1e-18 * (
        div(quote * 2e18 + volume, volume * 2)
        - CASE WHEN mod(quote * 2e18 + volume, volume * 2) = 0 AND mod(div(quote * 2e18 + volume, volume * 2), 2) = 1
               THEN 1 ELSE 0 END)) END
$$;
CREATE FUNCTION {ticks_guard}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP IN ('UPDATE', 'TRUNCATE') THEN
        RAISE EXCEPTION 'ticks cannot be updated or truncated: DELETE and INSERT them' USING ERRCODE = 'feature_not_supported';
    END IF;
    IF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        LOCK TABLE {symbols} IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION {rollups_insert}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        INSERT INTO {symbols} AS s (symbol, version)
        SELECT DISTINCT symbol, 1 FROM new_rows ORDER BY symbol
        ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1;
    END IF;
    INSERT INTO {rollups} AS r (symbol, res, bucket, open, high, low, close, volume, quote, vwap, n,
                                first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
    WITH minute AS MATERIALIZED (
        SELECT bucket, symbol, trim_scale((array_agg(price))[1]) AS open, trim_scale(max(price)) AS high,
               trim_scale(min(price)) AS low, trim_scale((array_agg(price))[count(*)]) AS close,
               trim_scale(sum(size)) AS volume, trim_scale(sum(price * size)) AS quote, count(*) AS n,
               min(ts) AS first_ts, (array_agg(seq))[1] AS first_seq, (array_agg(id))[1] AS first_id,
               max(ts) AS last_ts, (array_agg(seq))[count(*)] AS last_seq, (array_agg(id))[count(*)] AS last_id,
               max(block_number) AS max_block
        FROM (SELECT date_bin('1 min', ts, '1969-01-06Z') AS bucket, ts, seq, symbol, id, price, size, block_number
              FROM new_rows ORDER BY bucket, symbol, ts, seq, id) ordered
        GROUP BY bucket, symbol
    ), quarter AS MATERIALIZED (
        SELECT wider AS bucket, symbol, (array_agg(open))[1] AS open, max(high) AS high, min(low) AS low,
               (array_agg(close))[count(*)] AS close, trim_scale(sum(volume)) AS volume, trim_scale(sum(quote)) AS quote,
               sum(n)::bigint AS n, min(first_ts) AS first_ts, (array_agg(first_seq))[1] AS first_seq, (array_agg(first_id))[1] AS first_id,
               max(last_ts) AS last_ts, (array_agg(last_seq))[count(*)] AS last_seq, (array_agg(last_id))[count(*)] AS last_id,
               max(max_block) AS max_block
        FROM (SELECT date_bin('15 min', bucket, '1969-01-06Z') AS wider, * FROM minute ORDER BY wider, symbol, bucket) ordered
        GROUP BY wider, symbol
    ), merged AS (
        SELECT 60 AS res, * FROM minute
        UNION ALL
        SELECT 900, * FROM quarter
        UNION ALL
        SELECT res, wider, symbol, (array_agg(open))[1], max(high), min(low),
               (array_agg(close))[count(*)], trim_scale(sum(volume)), trim_scale(sum(quote)),
               sum(n)::bigint, min(first_ts), (array_agg(first_seq))[1], (array_agg(first_id))[1],
               max(last_ts), (array_agg(last_seq))[count(*)], (array_agg(last_id))[count(*)],
               max(max_block)
        FROM (
            SELECT date_bin(width, bucket, '1969-01-06Z') AS wider, res, quarter.*
            FROM quarter, (VALUES (1800, interval '30 min'), (3600, interval '1 hour'), (14400, interval '4 hours'),
                                  (86400, interval '24 hours')) AS level (res, width)
            ORDER BY wider, res, symbol, bucket
        ) ordered
        GROUP BY wider, res, symbol
    )
    SELECT symbol, res, bucket, open, high, low, close, volume, quote, {vwap}(quote, volume), n,
           first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block
    FROM merged ORDER BY symbol, res, bucket
    ON CONFLICT (symbol, res, bucket) DO UPDATE SET
        open      = CASE WHEN (excluded.first_ts, excluded.first_seq, excluded.first_id) < (r.first_ts, r.first_seq, r.first_id)
                         THEN excluded.open ELSE r.open END,
        first_id  = CASE WHEN (excluded.first_ts, excluded.first_seq, excluded.first_id) < (r.first_ts, r.first_seq, r.first_id)
                         THEN excluded.first_id ELSE r.first_id END,
        first_seq = CASE WHEN (excluded.first_ts, excluded.first_seq) < (r.first_ts, r.first_seq)
                         THEN excluded.first_seq ELSE r.first_seq END,
        first_ts  = least(r.first_ts, excluded.first_ts),
        close     = CASE WHEN (excluded.last_ts, excluded.last_seq, excluded.last_id) > (r.last_ts, r.last_seq, r.last_id)
                         THEN excluded.close ELSE r.close END,
        last_id   = CASE WHEN (excluded.last_ts, excluded.last_seq, excluded.last_id) > (r.last_ts, r.last_seq, r.last_id)
                         THEN excluded.last_id ELSE r.last_id END,
        last_seq  = CASE WHEN (excluded.last_ts, excluded.last_seq) > (r.last_ts, r.last_seq)
                         THEN excluded.last_seq ELSE r.last_seq END,
        last_ts   = greatest(r.last_ts, excluded.last_ts),
        high      = greatest(r.high, excluded.high),
        low       = least(r.low, excluded.low),
        volume    = trim_scale(r.volume + excluded.volume),
        quote     = trim_scale(r.quote + excluded.quote),
        vwap      = {vwap}(r.quote + excluded.quote, r.volume + excluded.volume),
        n         = r.n + excluded.n,
        max_block = greatest(r.max_block, excluded.max_block);
    RETURN NULL;
END $$;
CREATE FUNCTION {rollups_delete}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    level record;
BEGIN
    IF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        UPDATE {symbols} SET version = version + 1 WHERE symbol IN (SELECT symbol FROM old_rows);
    END IF;
    DELETE FROM {rollups} r
    USING (SELECT DISTINCT symbol, date_bin('1 min', ts, '1969-01-06Z') AS bucket FROM old_rows) touched
    WHERE r.symbol = touched.symbol AND r.res = 60 AND r.bucket = touched.bucket;
    INSERT INTO {rollups} (symbol, res, bucket, open, high, low, close, volume, quote, vwap, n,
                           first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
    SELECT symbol, 60, bucket, trim_scale((array_agg(price ORDER BY ts, seq, id))[1]), trim_scale(max(price)), trim_scale(min(price)),
           trim_scale((array_agg(price ORDER BY ts DESC, seq DESC, id DESC))[1]), trim_scale(sum(size)), trim_scale(sum(price * size)),
           {vwap}(sum(price * size), sum(size)), count(*), min(ts), (array_agg(seq ORDER BY ts, seq, id))[1], (array_agg(id ORDER BY ts, seq, id))[1],
           max(ts), (array_agg(seq ORDER BY ts DESC, seq DESC, id DESC))[1], (array_agg(id ORDER BY ts DESC, seq DESC, id DESC))[1],
           max(block_number)
    FROM (SELECT DISTINCT symbol, date_bin('1 min', ts, '1969-01-06Z') AS bucket FROM old_rows) touched
    CROSS JOIN LATERAL (
        SELECT ts, seq, id, price, size, block_number FROM {ticks} t
        WHERE t.symbol = touched.symbol AND t.ts >= touched.bucket AND t.ts < touched.bucket + interval '1 min'
        OFFSET 0
    ) t
    GROUP BY symbol, bucket;
    FOR level IN SELECT * FROM (VALUES (900, 60, interval '15 min'), (1800, 900, interval '30 min'), (3600, 1800, interval '1 hour'),
                                       (14400, 3600, interval '4 hours'), (86400, 14400, interval '24 hours')) AS l (res, below, width)
    LOOP
        DELETE FROM {rollups} r
        USING (SELECT DISTINCT symbol, date_bin(level.width, ts, '1969-01-06Z') AS bucket FROM old_rows) touched
        WHERE r.symbol = touched.symbol AND r.res = level.res AND r.bucket = touched.bucket;
        INSERT INTO {rollups} (symbol, res, bucket, open, high, low, close, volume, quote, vwap, n,
                               first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
        SELECT symbol, level.res, touched.bucket, (array_agg(open ORDER BY b.bucket))[1], max(high), min(low),
               (array_agg(close ORDER BY b.bucket DESC))[1], trim_scale(sum(volume)), trim_scale(sum(quote)),
               {vwap}(sum(quote), sum(volume)), sum(n),
               min(first_ts), (array_agg(first_seq ORDER BY b.bucket))[1], (array_agg(first_id ORDER BY b.bucket))[1],
               max(last_ts), (array_agg(last_seq ORDER BY b.bucket DESC))[1], (array_agg(last_id ORDER BY b.bucket DESC))[1],
               max(max_block)
        FROM (SELECT DISTINCT symbol, date_bin(level.width, ts, '1969-01-06Z') AS bucket FROM old_rows) touched
        CROSS JOIN LATERAL (
            SELECT r.bucket, open, high, low, close, volume, quote, n,
                   first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block
            FROM {rollups} r
            WHERE r.symbol = touched.symbol AND r.res = level.below
              AND r.bucket >= touched.bucket AND r.bucket < touched.bucket + level.width
            OFFSET 0
        ) b
        GROUP BY symbol, touched.bucket;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER {ticks_guard} BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON {ticks}
    FOR EACH STATEMENT EXECUTE FUNCTION {ticks_guard}();
CREATE TRIGGER {rollups_insert} AFTER INSERT ON {ticks} REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {rollups_insert}();
CREATE TRIGGER {rollups_delete} AFTER DELETE ON {ticks} REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {rollups_delete}();
CREATE FUNCTION {canonical}(name text) RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT a.symbol FROM market_aliases a WHERE a.alias = name), name)
$$;
CREATE FUNCTION {instant}(us bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT '1970-01-01Z'::timestamptz + (us / 1000000) * interval '1 second' + (us % 1000000) * interval '1 microsecond'
$$;
CREATE FUNCTION {lock}(names text[]) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO {symbols} AS s (symbol, version)
    SELECT DISTINCT coalesce(a.symbol, name) COLLATE "C", 1
    FROM (SELECT DISTINCT name FROM unnest(names) AS name) n LEFT JOIN market_aliases a ON a.alias = name
    ORDER BY 1
    ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1;
END $$;
CREATE FUNCTION {ingest}(symbols text[], ids text[], times bigint[], seqs bigint[], prices numeric[], sizes numeric[],
                         sides text[], block_numbers bigint[], block_hashes text[], txs text[])
RETURNS TABLE (item bigint, outcome text) LANGUAGE plpgsql
SET search_path FROM CURRENT SET marketdata.writer = 'locked' AS $$
#variable_conflict use_column
DECLARE
    created_symbols text[];
    created_ids text[];
BEGIN
    PERFORM {lock}(symbols);
    IF EXISTS (SELECT FROM market_aliases WHERE alias = ANY (symbols)) THEN
        symbols := ARRAY(SELECT coalesce(a.symbol, u.name) FROM unnest(symbols) WITH ORDINALITY AS u (name, item)
                         LEFT JOIN market_aliases a ON a.alias = u.name ORDER BY u.item);
    END IF;
    IF block_hashes IS NULL OR NOT EXISTS (
        SELECT FROM (SELECT DISTINCT u.symbol, u.block_hash FROM unnest(symbols, block_hashes) AS u (symbol, block_hash)) given
        JOIN {retracted} r ON r.symbol = given.symbol AND r.block_hash = given.block_hash
    ) THEN
        BEGIN
            INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx)
            SELECT u.symbol, u.id, {instant}(u.us), u.seq, u.price, u.size, u.side, u.block_number, u.block_hash, u.tx
            FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
                 AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx);
            RETURN;
        EXCEPTION WHEN unique_violation THEN
        END;
    END IF;
    WITH stored AS (
        INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx)
        SELECT u.symbol, u.id, {instant}(u.us), u.seq, u.price, u.size, u.side, u.block_number, u.block_hash, u.tx
        FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
             WITH ORDINALITY AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx, item)
        WHERE NOT EXISTS (SELECT FROM {retracted} r WHERE r.symbol = u.symbol AND r.block_hash = u.block_hash)
        ORDER BY u.item
        ON CONFLICT (symbol, id) DO NOTHING
        RETURNING symbol, id
    )
    SELECT array_agg(symbol), array_agg(id) INTO created_symbols, created_ids FROM stored;
    RETURN QUERY
    WITH given AS (
        SELECT u.*, EXISTS (SELECT FROM {retracted} r WHERE r.symbol = u.symbol AND r.block_hash = u.block_hash) AS retracted
        FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
             WITH ORDINALITY AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx, item)
    ), compared AS (
        SELECT g.item, g.retracted, c.id IS NOT NULL AND row_number() OVER (PARTITION BY g.symbol, g.id, g.retracted ORDER BY g.item) = 1
               AND NOT g.retracted AS created,
               (t.ts, t.seq, t.price, t.size, t.side, t.block_number, t.block_hash, t.tx)
               IS NOT DISTINCT FROM ({instant}(g.us), g.seq, g.price, g.size, g.side, g.block_number, g.block_hash, g.tx) AS same
        FROM given g
        LEFT JOIN {ticks} t ON t.symbol = g.symbol AND t.id = g.id
        LEFT JOIN unnest(created_symbols, created_ids) AS c (symbol, id) ON c.symbol = g.symbol AND c.id = g.id
    )
    SELECT j.item, CASE WHEN j.retracted THEN 'retracted' WHEN j.same THEN 'duplicate' ELSE 'conflict' END
    FROM compared j WHERE NOT j.created ORDER BY j.item;
END $$;
CREATE FUNCTION {retract}(name text, hash text) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT SET marketdata.writer = 'locked' AS $$
DECLARE
    stored_name text := {canonical}(name);
    removed bigint;
    number bigint;
BEGIN
    PERFORM {lock}(ARRAY[stored_name]);
    WITH dropped AS (DELETE FROM {ticks} WHERE symbol = stored_name AND block_hash = hash RETURNING block_number)
    SELECT count(*), max(block_number) INTO removed, number FROM dropped;
    INSERT INTO {retracted} (symbol, block_hash, block_number) VALUES (stored_name, hash, number) ON CONFLICT DO NOTHING;
    RETURN removed;
END $$;
CREATE FUNCTION {restore}(name text, hash text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stored_name text := {canonical}(name);
BEGIN
    PERFORM {lock}(ARRAY[stored_name]);
    DELETE FROM {retracted} WHERE symbol = stored_name AND block_hash = hash;
END $$;
CREATE FUNCTION {finalize}(name text, block bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stored_name text := {canonical}(name);
BEGIN
    PERFORM {lock}(ARRAY[stored_name]);
    UPDATE {symbols} SET finalized_block = greatest(finalized_block, block) WHERE symbol = stored_name;
END $$;
CREATE FUNCTION {ms}(ts timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (date_part('epoch', ts AT TIME ZONE 'UTC') * 1000)::bigint
$$;
CREATE FUNCTION {bucket_of}(ts timestamptz, width interval, shift interval) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN width = interval '1 month' THEN date_trunc('month', ts + shift, 'UTC') - shift
                ELSE date_bin(width, ts, '1969-01-06Z'::timestamptz - shift) END
$$;
CREATE FUNCTION {bucket_end}(opened timestamptz, width interval, shift interval) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN width = interval '1 month'
                THEN ((opened + shift) AT TIME ZONE 'UTC' + width) AT TIME ZONE 'UTC' - shift
                ELSE opened + width END
$$;
CREATE FUNCTION {candles}(symbol text, bucket text, "from" timestamptz DEFAULT NULL, "to" timestamptz DEFAULT NULL,
                          max_rows integer DEFAULT 500, fill text DEFAULT 'none', shift_minutes integer DEFAULT 0,
                          current text DEFAULT 'include')
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500
SET search_path FROM CURRENT SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    name     CONSTANT text := coalesce((SELECT a.symbol FROM market_aliases a WHERE a.alias = $1), $1);
    label    CONSTANT text := $2;
    wanted   CONSTANT bigint := $5;
    shift    CONSTANT interval := make_interval(mins => $7);
    forward  CONSTANT boolean := $3 IS NOT NULL;
    seconds  CONSTANT integer := CASE $2
        WHEN '1s' THEN 1 WHEN '1m' THEN 60 WHEN '3m' THEN 180 WHEN '5m' THEN 300 WHEN '15m' THEN 900 WHEN '30m' THEN 1800
        WHEN '1h' THEN 3600 WHEN '2h' THEN 7200 WHEN '4h' THEN 14400 WHEN '6h' THEN 21600 WHEN '8h' THEN 28800
        WHEN '12h' THEN 43200 WHEN '1d' THEN 86400 WHEN '3d' THEN 259200 WHEN '1w' THEN 604800 WHEN '1M' THEN 2678400 END;
    width    CONSTANT interval := CASE $2 WHEN '1M' THEN interval '1 month' ELSE make_interval(secs => seconds) END;
    level    integer;
    step     interval;
    per      bigint;
    origin   timestamptz;
    reach    interval;
    final    bigint;    -- the symbol's finalized block
    earliest timestamptz := coalesce($3, '-infinity');
    latest   timestamptz := coalesce($4, 'infinity');
    opened   timestamptz;
BEGIN
    IF seconds IS NULL OR $5 IS NULL OR $5 < 1 OR $6 NOT IN ('none', 'previous') OR $8 NOT IN ('include', 'exclude')
       OR $7 NOT BETWEEN -720 AND 840 THEN
        RAISE EXCEPTION 'candles: invalid argument among bucket %, max_rows %, fill %, shift_minutes % and current %',
            $2, $5, $6, $7, $8
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT s.finalized_block INTO final FROM {symbols} s WHERE s.symbol = name;
    IF isfinite(earliest) THEN
        opened := {bucket_of}(earliest, width, shift);
        earliest := CASE WHEN opened < earliest THEN {bucket_end}(opened, width, shift) ELSE opened END;
    END IF;
    IF $8 = 'exclude' THEN
        latest := least(latest, {bucket_of}({bucket_of}(now(), width, shift) - interval '1 us', width, shift));
    END IF;
    IF isfinite(latest) THEN
        latest := {bucket_of}(latest, width, shift);
    END IF;
    IF $6 = 'previous' THEN
        RETURN QUERY SELECT * FROM {candles_filled}(name, label, earliest, latest, forward, wanted, width, shift, $7);
        RETURN;
    END IF;
    IF seconds = 1 THEN
        RETURN QUERY
        WITH RECURSIVE hit (opened, remaining) AS (
            SELECT date_trunc('second', CASE WHEN forward
                       THEN (SELECT min(ts) FROM {ticks} WHERE symbol = name AND ts >= earliest AND ts < latest + width)
                       ELSE (SELECT max(ts) FROM {ticks} WHERE symbol = name AND ts >= earliest AND ts < latest + width) END), wanted - 1
            UNION ALL
            SELECT date_trunc('second', CASE WHEN forward
                       THEN (SELECT min(ts) FROM {ticks} WHERE symbol = name AND ts >= hit.opened + width AND ts < latest + width)
                       ELSE (SELECT max(ts) FROM {ticks} WHERE symbol = name AND ts >= earliest AND ts < hit.opened) END), remaining - 1
            FROM hit WHERE remaining > 0 AND hit.opened IS NOT NULL
        )
        SELECT name, label, hit.opened, hit.opened + width, trim_scale(c.open), trim_scale(c.high), trim_scale(c.low), trim_scale(c.close),
               trim_scale(c.volume), trim_scale(c.quote), c.n, {vwap}(c.quote, c.volume), hit.opened + width <= now(),
               hit.opened + width <= now() AND coalesce(c.max_block <= final, c.max_block IS NULL), NULL::text
        FROM hit CROSS JOIN LATERAL (
            SELECT (array_agg(price))[1] AS open, max(price) AS high, min(price) AS low, (array_agg(price))[count(*)] AS close,
                   sum(size) AS volume, sum(price * size) AS quote, count(*) AS n, max(block_number) AS max_block
            FROM (SELECT price, size, block_number FROM {ticks}
                  WHERE symbol = name AND ts >= hit.opened AND ts < hit.opened + width ORDER BY ts, seq, id) t
        ) c
        WHERE hit.opened IS NOT NULL;
        RETURN;
    END IF;
    level := CASE WHEN seconds % 86400 = 0 AND $7 = 0 THEN 86400
                  WHEN seconds % 14400 = 0 AND $7 % 240 = 0 THEN 14400
                  WHEN seconds % 3600 = 0 AND $7 % 60 = 0 THEN 3600
                  WHEN seconds % 1800 = 0 AND $7 % 30 = 0 THEN 1800
                  WHEN seconds % 900 = 0 AND $7 % 15 = 0 THEN 900 ELSE 60 END;
    step := make_interval(secs => level);
    per := seconds / level;
    IF isfinite(latest) THEN
        latest := {bucket_end}(latest, width, shift);
    END IF;
    IF per = 1 THEN
        RETURN QUERY
        SELECT name, label, c.bucket, c.bucket + width, c.open, c.high, c.low, c.close, c.volume, c.quote, c.n,
               c.vwap, c.bucket + width <= now(),
               c.bucket + width <= now() AND coalesce(c.max_block <= final, c.max_block IS NULL), c.json_prefix
        FROM (
            (SELECT * FROM {rollups} WHERE forward AND symbol = name AND res = level AND bucket >= earliest AND bucket < latest
             ORDER BY bucket LIMIT wanted)
            UNION ALL
            (SELECT * FROM {rollups} WHERE NOT forward AND symbol = name AND res = level AND bucket >= earliest AND bucket < latest
             ORDER BY bucket DESC LIMIT wanted)
        ) c;
        RETURN;
    END IF;
    IF per >= 24 THEN
        RETURN QUERY SELECT * FROM {candles_pieced}(name, label, earliest, latest, forward, wanted, seconds, level, width, shift, final);
        RETURN;
    END IF;
    origin := '1969-01-06Z'::timestamptz - shift;
    reach := width - step;
    IF forward THEN
        latest := least(latest, (
            SELECT bucket + step FROM {rollups} WHERE symbol = name AND res = level AND bucket >= earliest AND bucket < latest
            ORDER BY bucket OFFSET wanted * per - 1 LIMIT 1));
    ELSE
        earliest := greatest(earliest, {bucket_of}((
            SELECT bucket FROM {rollups} WHERE symbol = name AND res = level AND bucket >= earliest AND bucket < latest
            ORDER BY bucket DESC OFFSET wanted * per - 1 LIMIT 1), width, shift));
    END IF;
    RETURN QUERY
    SELECT name, label, c.opened, c.opened + width,
           coalesce(c.open, (SELECT r.open FROM {rollups} r WHERE r.symbol = name AND r.res = level AND r.bucket >= c.opened
                           ORDER BY r.bucket LIMIT 1)), c.high, c.low,
           coalesce(c.close, (SELECT r.close FROM {rollups} r WHERE r.symbol = name AND r.res = level AND r.bucket < c.opened + width
                           ORDER BY r.bucket DESC LIMIT 1)), c.volume, c.quote, c.n,
           {vwap}(c.quote, c.volume), c.opened + width <= now(),
           c.opened + width <= now() AND coalesce(c.max_block <= final, c.max_block IS NULL), NULL::text
    FROM (
        SELECT p.opened, max(p.open) FILTER (WHERE p.bucket = p.opened) AS open, max(p.high) AS high, min(p.low) AS low,
               max(p.close) FILTER (WHERE p.bucket = p.opened + reach) AS close,
               trim_scale(sum(p.volume)) AS volume, trim_scale(sum(p.quote)) AS quote, sum(p.n)::bigint AS n, max(p.max_block) AS max_block
        FROM (
            SELECT date_bin(width, bucket, origin) AS opened, bucket, open, high, low, close, volume, quote, n, max_block
            FROM {rollups} WHERE symbol = name AND res = level AND bucket >= earliest AND bucket < latest
        ) p
        GROUP BY p.opened
    ) c
    ORDER BY CASE WHEN forward THEN c.opened END, c.opened DESC LIMIT wanted;
END $$;
CREATE FUNCTION {candles_filled}(name text, label text, earliest timestamptz, latest timestamptz, forward boolean, wanted bigint,
                                 width interval, shift interval, shift_minutes integer)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500 SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    before numeric;
    first_tick CONSTANT timestamptz := (SELECT min(ts) FROM {ticks} WHERE symbol = name);
BEGIN
    IF first_tick IS NULL THEN
        RETURN;
    END IF;
    earliest := greatest(earliest, {bucket_of}(first_tick, width, shift));
    latest := least(latest, {bucket_of}(greatest(now(), (SELECT max(ts) FROM {ticks} WHERE symbol = name)), width, shift));
    IF earliest > latest THEN
        RETURN;
    ELSIF forward THEN
        latest := least(latest, earliest + shift + (wanted - 1) * width - shift);
    ELSE
        earliest := greatest(earliest, latest + shift - (wanted - 1) * width - shift);
    END IF;
    SELECT trim_scale(price) INTO before FROM {ticks} WHERE symbol = name AND ts < earliest ORDER BY ts DESC, seq DESC, id DESC LIMIT 1;
    RETURN QUERY
    SELECT name, label, f.opened, {bucket_end}(f.opened, width, shift), coalesce(f.open, f.carried), coalesce(f.high, f.carried),
           coalesce(f.low, f.carried), f.carried, coalesce(f.volume, 0), coalesce(f.quote, 0), coalesce(f.n, 0), f.vwap,
           {bucket_end}(f.opened, width, shift) <= now(), coalesce(f.finalized, {bucket_end}(f.opened, width, shift) <= now()),
           f.json_prefix
    FROM (
        SELECT g.*, coalesce(first_value(g.close) OVER (PARTITION BY g.run ORDER BY g.opened), before) AS carried
        FROM (
            SELECT s.local - shift AS opened, c.open, c.high, c.low, c.close, c.volume, c.quote, c.n, c.vwap, c.finalized, c.json_prefix,
                   count(c.close) OVER (ORDER BY s.local) AS run
            FROM generate_series(earliest + shift, latest + shift, width) AS s (local)
            LEFT JOIN {candles}(name, label, earliest, latest, wanted::integer, 'none', shift_minutes) c ON c.t = s.local - shift
        ) g
    ) f
    ORDER BY CASE WHEN forward THEN f.opened END, f.opened DESC;
END $$;
CREATE FUNCTION {candles_pieced}(name text, label text, earliest timestamptz, latest timestamptz, forward boolean, wanted bigint,
                                 seconds integer, fine integer, width interval, shift interval, final bigint)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500
SET search_path FROM CURRENT SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    levels CONSTANT integer[] := (SELECT array_agg(res ORDER BY res DESC) FROM (VALUES (60), (900), (1800), (3600), (14400), (86400)) AS l (res)
                                  WHERE res * 2 <= seconds AND res >= fine
                                    AND (res <> 1800 OR fine = 1800) AND (res <> 3600 OR fine <> 1800));
    spans  CONSTANT interval[] := (SELECT array_agg(make_interval(secs => res) ORDER BY res DESC) FROM unnest(levels) AS l (res));
    coarse CONSTANT integer := levels[1];
    span   CONSTANT interval := spans[1];
    per    CONSTANT bigint := seconds / coarse;
    near   timestamptz;
    far    timestamptz;
    beyond timestamptz;
BEGIN
    IF forward THEN
        near := (SELECT min(bucket) FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest);
        far := (SELECT bucket FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
            ORDER BY bucket OFFSET wanted * per LIMIT 1);
        IF far - near > wanted * per * span THEN
            far := (SELECT bucket FROM {rollups}
                WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
                ORDER BY bucket OFFSET wanted * (per + 1) LIMIT 1);
        END IF;
        beyond := far + span;
    ELSE
        near := (SELECT max(bucket) FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest);
        far := (SELECT bucket FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
            ORDER BY bucket DESC OFFSET wanted * per LIMIT 1);
        IF near - far > wanted * per * span THEN
            far := (SELECT bucket FROM {rollups}
                WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
                ORDER BY bucket DESC OFFSET wanted * (per + 1) LIMIT 1);
        END IF;
        earliest := greatest(earliest, {bucket_of}(far, width, shift));
    END IF;
    beyond := least(latest, beyond);
    RETURN QUERY
    WITH bound AS (
        SELECT r.at FROM (
            SELECT bucket, {bucket_end}({bucket_of}(bucket, width, shift), width, shift) AS at
            FROM {rollups} WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < beyond) r
        WHERE r.at < r.bucket + span
    )
    SELECT name, label, c.opened, {bucket_end}(c.opened, width, shift),
           coalesce(c.open, (SELECT r.open FROM {rollups} r WHERE r.symbol = name AND r.res = fine AND r.bucket >= c.opened
                           ORDER BY r.bucket LIMIT 1)), c.high, c.low,
           coalesce(c.close, (SELECT r.close FROM {rollups} r WHERE r.symbol = name AND r.res = fine AND r.bucket < {bucket_end}(c.opened, width, shift)
                           ORDER BY r.bucket DESC LIMIT 1)), c.volume, c.quote, c.n,
           {vwap}(c.quote, c.volume), {bucket_end}(c.opened, width, shift) <= now(),
           {bucket_end}(c.opened, width, shift) <= now() AND coalesce(c.max_block <= final, c.max_block IS NULL), NULL::text
    FROM (
        SELECT p.opened, max(p.open) FILTER (WHERE p.bucket = p.opened) AS open, max(p.high) AS high, min(p.low) AS low,
               max(p.close) FILTER (WHERE p.row_end = {bucket_end}(p.opened, width, shift)) AS close,
               trim_scale(sum(p.volume)) AS volume, trim_scale(sum(p.quote)) AS quote, sum(p.n)::bigint AS n, max(p.max_block) AS max_block
        FROM (
            SELECT * FROM (
                SELECT bucket, bucket + span AS row_end, open, high, low, close, volume, quote, n, max_block,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < beyond) r
            WHERE {bucket_end}(r.opened, width, shift) >= r.bucket + span
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[2] AS row_end, open, high, low, close, volume, quote, n, max_block,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[2]
                  AND bucket >= {bucket_of}(b.at, spans[1], '0') AND bucket < {bucket_of}(b.at, spans[1], '0') + spans[1]
                  AND (bucket >= b.at OR bucket + spans[2] <= b.at) OFFSET 0) r WHERE levels[2] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[3] AS row_end, open, high, low, close, volume, quote, n, max_block,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[3]
                  AND bucket >= {bucket_of}(b.at, spans[2], '0') AND bucket < {bucket_of}(b.at, spans[2], '0') + spans[2]
                  AND (bucket >= b.at OR bucket + spans[3] <= b.at) OFFSET 0) r WHERE levels[3] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[4] AS row_end, open, high, low, close, volume, quote, n, max_block,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[4]
                  AND bucket >= {bucket_of}(b.at, spans[3], '0') AND bucket < {bucket_of}(b.at, spans[3], '0') + spans[3]
                  AND (bucket >= b.at OR bucket + spans[4] <= b.at) OFFSET 0) r WHERE levels[4] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[5] AS row_end, open, high, low, close, volume, quote, n, max_block,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[5]
                  AND bucket >= {bucket_of}(b.at, spans[4], '0') AND bucket < {bucket_of}(b.at, spans[4], '0') + spans[4]
                  AND (bucket >= b.at OR bucket + spans[5] <= b.at) OFFSET 0) r WHERE levels[5] IS NOT NULL
        ) p
        WHERE p.opened >= earliest AND p.opened < latest
        GROUP BY p.opened
    ) c
    ORDER BY CASE WHEN forward THEN c.opened END, c.opened DESC LIMIT wanted;
END $$;
