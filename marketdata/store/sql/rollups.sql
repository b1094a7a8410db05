-- Triggers of ticks: every level of every candle is corrected in the transaction of the tick itself, whoever writes it.
--
-- Locks. A writer through {ingest} (or its siblings) updates the rows of its symbols, in their order, before all else;
-- writers of one symbol thus follow one another and writers of different symbols do not meet. It says so in the setting
-- marketdata.writer. Any other writer names its symbols only by the rows it writes, too late for an order; so it takes the
-- symbols table for itself. Within one statement nobody ever waits for a lock while holding one that is asked for in another
-- order. Two calls in one transaction are two orders, unless it locks the symbols of both by {lock} first, as store/ticks.py does.
--
-- Isolation. READ COMMITTED sees, after that lock, all that was committed before it. REPEATABLE READ does not, but it
-- cannot update a symbol's row that changed behind its snapshot: PostgreSQL answers 40001, and its client tries again.

-- Exact, half-even, 18 places: twice the remainder of an integer division tells a tie from what only looks like one.
CREATE FUNCTION {vwap}(quote numeric, volume numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN volume > 0 THEN trim_scale(1e-18 * (
        div(quote * 2e18 + volume, volume * 2)
        - CASE WHEN mod(quote * 2e18 + volume, volume * 2) = 0 AND mod(div(quote * 2e18 + volume, volume * 2), 2) = 1
               THEN 1 ELSE 0 END)) END
$$;

CREATE FUNCTION {ticks_guard}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP IN ('UPDATE', 'TRUNCATE') THEN
        RAISE EXCEPTION 'ticks are never changed in place: DELETE them and INSERT anew' USING ERRCODE = 'feature_not_supported';
    END IF;
    IF current_setting('marketdata.writer', true) IS DISTINCT FROM 'locked' THEN
        LOCK TABLE {symbols} IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END $$;

-- Merges the rows that a statement inserted. The first and the last tick of a bucket are settled by (ts, seq, id), so the
-- result does not depend on the order of arrival; trim_scale makes equal numbers equal bytes, whatever zeros they came with.
-- Sorting is a good part of the work, so times lead in its keys, and in its rows: fixed in width, they compare without a detour;
-- and levels above the quarter hour are made of quarters, of which there are fewer than minutes.
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

-- What a statement deleted cannot be subtracted (a minimum has no inverse): the buckets it touched are made anew, minutes
-- from the ticks that are left, each wider level from the one below.
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
        OFFSET 0  -- keeps the planner from turning the probes of the index into one pass over the table
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
