-- The triggers of the table ticks. They update the stored candles of every level in the transaction that inserts or
-- deletes the ticks, also for clients that write to the table directly.
--
-- Locks. {ingest}, {retract}, {restore} and {finalize} first update the rows of their symbols, ordered by symbol. So writers
-- of one symbol wait for each other, and writers of different symbols do not. {ingest} and {retract} set marketdata.writer
-- to 'locked', which tells the triggers that the symbols are locked. The symbols of any other writer are known only after it
-- has written its rows, which is too late to lock them in order. So the trigger first locks the whole symbols table. Within
-- a statement all locks are taken in the same order, which excludes deadlocks. A transaction with several calls must first
-- lock the symbols of all calls with {lock}, as store/ticks.py does. {finalize_chain} locks no symbol, but the row of its chain.
-- So a transaction calls it last, and for several chains in their order.
--
-- Pruned ticks. Below the line of a symbol (pruned_until), ticks are deleted and their candles stay, so these candles cannot be
-- computed again. {ingest}, {retract} and {restore} refuse what is below the line, and the triggers refuse it for clients that
-- write to the table directly. store/prune.py deletes ticks with marketdata.writer 'pruning'; the triggers then do nothing. It
-- locks no symbol: once the line is committed, nobody else changes a tick below it. store/symbols.py uses 'pruning', too, when
-- it removes a symbol with its candles.
--
-- Isolation. A statement in READ COMMITTED sees, once it has the lock, everything that was committed before. A transaction
-- in REPEATABLE READ does not. But if it updates a symbol's row that has changed since its snapshot, PostgreSQL raises 40001,
-- and the client retries.

-- Computes quote / volume, rounded half-even to 18 places. Integer arithmetic on twice the values makes ties exact.
CREATE FUNCTION {vwap}(quote numeric, volume numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN volume > 0 THEN trim_scale(1e-18 * (
        div(quote * 2e18 + volume, volume * 2)
        - CASE WHEN mod(quote * 2e18 + volume, volume * 2) = 0 AND mod(div(quote * 2e18 + volume, volume * 2), 2) = 1
               THEN 1 ELSE 0 END)) END
$$;

-- Notifies the processes that push candles. "kind" says what happened between the times "first" and "last": ticks were
-- stored, ticks were removed, or candles became final, those of a symbol or (chain_final) of all symbols of a chain, which
-- "symbol" then names. The message contains only table, symbol, range (microseconds since 1970) and kind; the receiver reads
-- the rows itself.
CREATE FUNCTION {changed}(symbol text, first timestamptz, last timestamptz, kind text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('market_changes', concat_ws(' ', '{ticks}', symbol,
        (extract(epoch FROM greatest(first, '1970-01-01Z')) * 1000000)::bigint,
        (extract(epoch FROM least(last, '3000-01-01Z')) * 1000000)::bigint, kind))
$$;

CREATE FUNCTION {ticks_guard}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP IN ('UPDATE', 'TRUNCATE') THEN
        RAISE EXCEPTION 'ticks cannot be updated or truncated: DELETE and INSERT them' USING ERRCODE = 'feature_not_supported';
    END IF;
    IF coalesce(current_setting('marketdata.writer', true), '') NOT IN ('locked', 'pruning') THEN
        LOCK TABLE {symbols} IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END $$;

-- Raises the error for a client that inserts or deletes a tick below the line of a symbol.
CREATE FUNCTION {refuse_pruned}(symbol text, line timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ticks of % before % are pruned: none can be inserted or deleted there', symbol,
        to_char(line AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;

-- Merges the inserted rows into the stored candles. The first and the last tick of a bucket are chosen by (ts, seq, id), so the
-- result does not depend on the order of arrival. trim_scale gives equal numbers the same bytes.
-- Sorting is a large part of the work, so the sort keys start with times, which compare fastest. The levels above 15 minutes
-- are aggregated from the 15-minute candles, because these are fewer than the 1-minute candles.
CREATE FUNCTION {rollups_insert}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        INSERT INTO {symbols} AS s (symbol, version)
        SELECT DISTINCT symbol, 1 FROM new_rows ORDER BY symbol
        ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1, written_at = clock_timestamp();
        PERFORM {refuse_pruned}(s.symbol, s.pruned_until) FROM new_rows n JOIN {symbols} s USING (symbol) WHERE n.ts < s.pruned_until;
    END IF;
    WITH minute AS MATERIALIZED (
        SELECT bucket, symbol, trim_scale((array_agg(price))[1]) AS open, trim_scale(max(price)) AS high,
               trim_scale(min(price)) AS low, trim_scale((array_agg(price))[count(*)]) AS close,
               trim_scale(sum(size)) AS volume, trim_scale(sum(quote)) AS quote,
               trim_scale(coalesce(sum(size) FILTER (WHERE side = 'buy'), 0)) AS buy_volume,
               trim_scale(coalesce(sum(quote) FILTER (WHERE side = 'buy'), 0)) AS buy_quote, count(*) AS n,
               min(ts) AS first_ts, (array_agg(seq))[1] AS first_seq, (array_agg(id))[1] AS first_id,
               max(ts) AS last_ts, (array_agg(seq))[count(*)] AS last_seq, (array_agg(id))[count(*)] AS last_id,
               max(block_number) AS max_block
        FROM (SELECT date_bin('1 min', ts, '1969-01-06Z') AS bucket, ts, seq, symbol, id, price, size, price * size AS quote, side, block_number
              FROM new_rows ORDER BY bucket, symbol, ts, seq, id) ordered
        GROUP BY bucket, symbol
    ), quarter AS MATERIALIZED (
        SELECT wider AS bucket, symbol, (array_agg(open))[1] AS open, max(high) AS high, min(low) AS low,
               (array_agg(close))[count(*)] AS close, trim_scale(sum(volume)) AS volume, trim_scale(sum(quote)) AS quote,
               trim_scale(sum(buy_volume)) AS buy_volume, trim_scale(sum(buy_quote)) AS buy_quote, sum(n)::bigint AS n, min(first_ts) AS first_ts, (array_agg(first_seq))[1] AS first_seq, (array_agg(first_id))[1] AS first_id,
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
               trim_scale(sum(buy_volume)), trim_scale(sum(buy_quote)), sum(n)::bigint, min(first_ts), (array_agg(first_seq))[1], (array_agg(first_id))[1],
               max(last_ts), (array_agg(last_seq))[count(*)], (array_agg(last_id))[count(*)],
               max(max_block)
        FROM (
            SELECT date_bin(width, bucket, '1969-01-06Z') AS wider, res, quarter.*
            FROM quarter, (VALUES (1800, interval '30 min'), (3600, interval '1 hour'), (14400, interval '4 hours'),
                                  (86400, interval '24 hours')) AS level (res, width)
            ORDER BY wider, res, symbol, bucket
        ) ordered
        GROUP BY wider, res, symbol
    ), first_block AS (  -- from now on the symbol's candles become final only by {finalize}
        UPDATE {symbols} SET final_until = '-infinity'
        WHERE final_until = 'infinity' AND symbol IN (SELECT symbol FROM quarter WHERE max_block IS NOT NULL)
    ), notified AS MATERIALIZED (
        -- One notification per symbol and day. If a batch has new ticks and one late tick, a single range would cover every
        -- candle between them. The ranges are computed from the 15-minute rows, because grouping new_rows again would add
        -- some percent to the time of the insert.
        SELECT {changed}(symbol, min(first_ts), max(last_ts), 'stored') FROM quarter
        GROUP BY symbol, date_bin('1 day', bucket, '1970-01-01Z')
    )
    INSERT INTO {rollups} AS r (symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, vwap, n,
                                first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
    SELECT symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, {vwap}(quote, volume), n,
           first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block
    FROM merged WHERE (SELECT count(*) FROM notified) > 0  -- PostgreSQL executes only the queries in WITH that are referenced
    ORDER BY symbol, res, bucket
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
        buy_volume = trim_scale(r.buy_volume + excluded.buy_volume),
        buy_quote  = trim_scale(r.buy_quote + excluded.buy_quote),
        max_block = greatest(r.max_block, excluded.max_block);
    RETURN NULL;
END $$;

-- Computes the candles of the deleted rows' buckets again: 1-minute candles from the remaining ticks, each wider level from
-- the next narrower one. Deleted rows cannot be subtracted, because a minimum has no inverse.
CREATE FUNCTION {rollups_delete}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    level record;
    width interval;
BEGIN
    IF current_setting('marketdata.writer', true) = 'pruning' THEN
        RETURN NULL;
    ELSIF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        UPDATE {symbols} SET version = version + 1, written_at = clock_timestamp() WHERE symbol IN (SELECT symbol FROM old_rows);
        PERFORM {refuse_pruned}(s.symbol, s.pruned_until) FROM old_rows o JOIN {symbols} s USING (symbol) WHERE o.ts < s.pruned_until;
    END IF;
    DELETE FROM {rollups} r
    USING (SELECT DISTINCT symbol, date_bin('1 min', ts, '1969-01-06Z') AS bucket FROM old_rows) touched
    WHERE r.symbol = touched.symbol AND r.res = 60 AND r.bucket = touched.bucket;
    INSERT INTO {rollups} (symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, vwap, n,
                           first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
    SELECT symbol, 60, bucket, trim_scale((array_agg(price ORDER BY ts, seq, id))[1]), trim_scale(max(price)), trim_scale(min(price)),
           trim_scale((array_agg(price ORDER BY ts DESC, seq DESC, id DESC))[1]), trim_scale(sum(size)), trim_scale(sum(price * size)),
           trim_scale(coalesce(sum(size) FILTER (WHERE side = 'buy'), 0)),
           trim_scale(coalesce(sum(price * size) FILTER (WHERE side = 'buy'), 0)),
           {vwap}(sum(price * size), sum(size)), count(*), min(ts), (array_agg(seq ORDER BY ts, seq, id))[1], (array_agg(id ORDER BY ts, seq, id))[1],
           max(ts), (array_agg(seq ORDER BY ts DESC, seq DESC, id DESC))[1], (array_agg(id ORDER BY ts DESC, seq DESC, id DESC))[1],
           max(block_number)
    FROM (SELECT DISTINCT symbol, date_bin('1 min', ts, '1969-01-06Z') AS bucket FROM old_rows) touched
    CROSS JOIN LATERAL (
        SELECT ts, seq, id, price, size, side, block_number FROM {ticks} t
        WHERE t.symbol = touched.symbol AND t.ts >= touched.bucket AND t.ts < touched.bucket + interval '1 min'
        OFFSET 0  -- prevents the planner from replacing the index scans per bucket by one scan of the table
    ) t
    GROUP BY symbol, bucket;
    FOR level IN SELECT * FROM (VALUES (900, 60, interval '15 min'), (1800, 900, interval '30 min'), (3600, 1800, interval '1 hour'),
                                       (14400, 3600, interval '4 hours'), (86400, 14400, interval '24 hours')) AS l (res, below, width)
    LOOP
        DELETE FROM {rollups} r
        USING (SELECT DISTINCT symbol, date_bin(level.width, ts, '1969-01-06Z') AS bucket FROM old_rows) touched
        WHERE r.symbol = touched.symbol AND r.res = level.res AND r.bucket = touched.bucket;
        INSERT INTO {rollups} (symbol, res, bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, vwap, n,
                               first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block)
        SELECT symbol, level.res, touched.bucket, (array_agg(open ORDER BY b.bucket))[1], max(high), min(low),
               (array_agg(close ORDER BY b.bucket DESC))[1], trim_scale(sum(volume)), trim_scale(sum(quote)),
               trim_scale(sum(buy_volume)), trim_scale(sum(buy_quote)), {vwap}(sum(quote), sum(volume)), sum(n),
               min(first_ts), (array_agg(first_seq ORDER BY b.bucket))[1], (array_agg(first_id ORDER BY b.bucket))[1],
               max(last_ts), (array_agg(last_seq ORDER BY b.bucket DESC))[1], (array_agg(last_id ORDER BY b.bucket DESC))[1],
               max(max_block)
        FROM (SELECT DISTINCT symbol, date_bin(level.width, ts, '1969-01-06Z') AS bucket FROM old_rows) touched
        CROSS JOIN LATERAL (
            SELECT r.bucket, open, high, low, close, volume, quote, buy_volume, buy_quote, n,
                   first_ts, first_seq, first_id, last_ts, last_seq, last_id, max_block
            FROM {rollups} r
            WHERE r.symbol = touched.symbol AND r.res = level.below
              AND r.bucket >= touched.bucket AND r.bucket < touched.bucket + level.width
            OFFSET 0
        ) b
        GROUP BY symbol, touched.bucket;
    END LOOP;
    -- One notification per symbol and second, because a range also names the candles between its ends. If more ticks are
    -- deleted than a block has, it is one per symbol and day, so that their number stays small.
    width := CASE WHEN (SELECT count(*) FROM old_rows) <= 1000 THEN '1 second' ELSE '1 day' END;
    PERFORM {changed}(symbol, min(ts), max(ts), 'removed') FROM old_rows GROUP BY symbol, date_bin(width, ts, '1970-01-01Z');
    RETURN NULL;
END $$;

CREATE TRIGGER {ticks_guard} BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON {ticks}
    FOR EACH STATEMENT EXECUTE FUNCTION {ticks_guard}();
CREATE TRIGGER {rollups_insert} AFTER INSERT ON {ticks} REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {rollups_insert}();
CREATE TRIGGER {rollups_delete} AFTER DELETE ON {ticks} REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {rollups_delete}();
