-- The function candles returns the candles of a symbol. The bounds "from" and "to" select candles by their opening time,
-- both inclusive; a candle always covers its whole bucket. With "from" the oldest candles are returned first, without it
-- the newest first. max_rows limits them in this order.
--
-- Stored levels are read directly. A candle of another width or time zone is computed from stored rows of the widest
-- level whose rows never cross the bound of a bucket. If a bucket has room for 24 or more of these rows, candles_pieced
-- reads a wider level instead and replaces only the rows that cross a bound by rows of narrower levels. So the number
-- of rows read depends on the number of buckets, not on the time range.
-- Candles of a second are computed from the ticks, one bucket at a time, because a second may contain any number of ticks.

-- Converts a time to milliseconds since 1970. It goes through a timestamp without time zone, because this takes a tenth of
-- the time of extracting a numeric, and is immutable for PostgreSQL. A double represents all these numbers exactly.
CREATE FUNCTION {ms}(ts timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (date_part('epoch', ts AT TIME ZONE 'UTC') * 1000)::bigint
$$;

-- The opening time of the bucket that contains ts. The origin is a Monday, and a multiple of three days before 1970-01-01.
CREATE FUNCTION {bucket_of}(ts timestamptz, width interval, shift interval) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN width = interval '1 month' THEN date_trunc('month', ts + shift, 'UTC') - shift
                ELSE date_bin(width, ts, '1969-01-06Z'::timestamptz - shift) END
$$;

-- The end of the bucket that opens at "opened". shift is the offset of the time zone from UTC.
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
    level    integer;   -- the stored level that is read: the width of its rows in seconds
    step     interval;  -- the same as an interval
    per      bigint;    -- rows of the level per bucket
    origin   timestamptz;
    reach    interval;
    final    timestamptz;  -- candles whose buckets end at or before this time are closed and final
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
    SELECT least(s.final_until, now()) INTO final FROM {symbols} s WHERE s.symbol = name;
    -- Convert the bounds to opening times: the first bucket that opens at or after "from", the last one at or before "to".
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
        WITH RECURSIVE hit (opened, remaining) AS (  -- the seconds that contain ticks, one index lookup each
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
               hit.opened + width <= final, NULL::text, trim_scale(c.buy_volume), trim_scale(c.buy_quote)
        FROM hit CROSS JOIN LATERAL (
            SELECT (array_agg(price))[1] AS open, max(price) AS high, min(price) AS low, (array_agg(price))[count(*)] AS close,
                   sum(size) AS volume, sum(price * size) AS quote, count(*) AS n,
                   coalesce(sum(size) FILTER (WHERE side = 'buy'), 0) AS buy_volume,
                   coalesce(sum(price * size) FILTER (WHERE side = 'buy'), 0) AS buy_quote
            FROM (SELECT price, size, side FROM {ticks}
                  WHERE symbol = name AND ts >= hit.opened AND ts < hit.opened + width ORDER BY ts, seq, id) t
        ) c
        WHERE hit.opened IS NOT NULL;
        RETURN;
    END IF;

    -- The widest level whose width divides both the bucket's width and the shift.
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
               c.bucket + width <= final, c.json_prefix, c.buy_volume, c.buy_quote
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
    reach := width - step;  -- from the opening time of a bucket to that of its last row
    -- Find both bounds before reading the rows: with a LIMIT in the main query the planner may not use the covering index.
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
           c.opened + width <= final, NULL::text, c.buy_volume, c.buy_quote
    FROM (
        -- open is taken from the bucket's first row, close from its last row. A row without a tick is not stored; then
        -- the subqueries above find the nearest stored row.
        SELECT p.opened, max(p.open) FILTER (WHERE p.bucket = p.opened) AS open, max(p.high) AS high, min(p.low) AS low,
               max(p.close) FILTER (WHERE p.bucket = p.opened + reach) AS close,
               trim_scale(sum(p.volume)) AS volume, trim_scale(sum(p.quote)) AS quote, sum(p.n)::bigint AS n,
               trim_scale(sum(p.buy_volume)) AS buy_volume, trim_scale(sum(p.buy_quote)) AS buy_quote
        FROM (
            SELECT date_bin(width, bucket, origin) AS opened, bucket, open, high, low, close, volume, quote, n, buy_volume, buy_quote
            FROM {rollups} WHERE symbol = name AND res = level AND bucket >= earliest AND bucket < latest
        ) p
        GROUP BY p.opened
    ) c
    ORDER BY CASE WHEN forward THEN c.opened END, c.opened DESC LIMIT wanted;
END $$;

-- Returns candles with fill = 'previous': a bucket without a tick gets a flat candle at the previous close. The candles
-- extend from the first tick to the current bucket, or to the last tick if that is later. earliest and latest are opening
-- times, or infinite.
CREATE FUNCTION {candles_filled}(name text, label text, earliest timestamptz, latest timestamptz, forward boolean, wanted bigint,
                                 width interval, shift interval, shift_minutes integer)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500 SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    before numeric;
    final CONSTANT timestamptz := (SELECT least(s.final_until, now()) FROM {symbols} s WHERE s.symbol = name);
    first_tick CONSTANT timestamptz := (SELECT min(ts) FROM {ticks} WHERE symbol = name);
BEGIN
    IF first_tick IS NULL THEN
        RETURN;  -- all ticks were retracted; greatest() below would ignore the null
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
           {bucket_end}(f.opened, width, shift) <= now(), {bucket_end}(f.opened, width, shift) <= final,
           f.json_prefix, coalesce(f.buy_volume, 0), coalesce(f.buy_quote, 0)
    FROM (
        SELECT g.*, coalesce(first_value(g.close) OVER (PARTITION BY g.run ORDER BY g.opened), before) AS carried
        FROM (
            SELECT s.local - shift AS opened, c.open, c.high, c.low, c.close, c.volume, c.quote, c.n, c.vwap, c.json_prefix,
                   c.buy_volume, c.buy_quote,
                   count(c.close) OVER (ORDER BY s.local) AS run
            FROM generate_series(earliest + shift, latest + shift, width) AS s (local)
            LEFT JOIN {candles}(name, label, earliest, latest, wanted::integer, 'none', shift_minutes) c ON c.t = s.local - shift
        ) g
    ) f
    ORDER BY CASE WHEN forward THEN f.opened END, f.opened DESC;
END $$;

-- Returns candles whose buckets do not start at bounds of a wide level, for example days in a time zone. It reads the rows
-- of the widest level that is at most half as wide as the bucket ("coarse"). Rows that cross the bound of a bucket are
-- replaced by rows of the next narrower level, and so on down to the level "fine", whose rows never cross a bound. Each
-- level has a separate branch of the UNION, so that its partition is looked up once and not once per bound.
CREATE FUNCTION {candles_pieced}(name text, label text, earliest timestamptz, latest timestamptz, forward boolean, wanted bigint,
                                 seconds integer, fine integer, width interval, shift interval, final timestamptz)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500
SET search_path FROM CURRENT SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- A level costs an index scan per bound, which can take longer than reading the rows that it saves. So half hours are
    -- used only as the last level, and hours only if no half hours follow.
    levels CONSTANT integer[] := (SELECT array_agg(res ORDER BY res DESC) FROM (VALUES (60), (900), (1800), (3600), (14400), (86400)) AS l (res)
                                  WHERE res * 2 <= seconds AND res >= fine
                                    AND (res <> 1800 OR fine = 1800) AND (res <> 3600 OR fine <> 1800));
    spans  CONSTANT interval[] := (SELECT array_agg(make_interval(secs => res) ORDER BY res DESC) FROM unnest(levels) AS l (res));
    coarse CONSTANT integer := levels[1];
    span   CONSTANT interval := spans[1];
    per    CONSTANT bigint := seconds / coarse;
    near   timestamptz;  -- the first row to read, in the order of the result
    far    timestamptz;  -- the last row to read
    beyond timestamptz;  -- the end of the time range to read
BEGIN
    -- Without gaps, wanted * per + 1 rows contain the wanted buckets. With gaps each bucket may need one row more.
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
    WITH bound AS (  -- the bounds of buckets that are inside a row of the level "coarse"
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
           {bucket_end}(c.opened, width, shift) <= final, NULL::text, c.buy_volume, c.buy_quote
    FROM (
        SELECT p.opened, max(p.open) FILTER (WHERE p.bucket = p.opened) AS open, max(p.high) AS high, min(p.low) AS low,
               max(p.close) FILTER (WHERE p.row_end = {bucket_end}(p.opened, width, shift)) AS close,
               trim_scale(sum(p.volume)) AS volume, trim_scale(sum(p.quote)) AS quote, sum(p.n)::bigint AS n,
               trim_scale(sum(p.buy_volume)) AS buy_volume, trim_scale(sum(p.buy_quote)) AS buy_quote
        FROM (
            SELECT * FROM (
                SELECT bucket, bucket + span AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < beyond) r
            WHERE {bucket_end}(r.opened, width, shift) >= r.bucket + span
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[2] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[2]
                  AND bucket >= {bucket_of}(b.at, spans[1], '0') AND bucket < {bucket_of}(b.at, spans[1], '0') + spans[1]
                  AND (bucket >= b.at OR bucket + spans[2] <= b.at) OFFSET 0) r WHERE levels[2] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[3] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[3]
                  AND bucket >= {bucket_of}(b.at, spans[2], '0') AND bucket < {bucket_of}(b.at, spans[2], '0') + spans[2]
                  AND (bucket >= b.at OR bucket + spans[3] <= b.at) OFFSET 0) r WHERE levels[3] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[4] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {bucket_of}(bucket, width, shift) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[4]
                  AND bucket >= {bucket_of}(b.at, spans[3], '0') AND bucket < {bucket_of}(b.at, spans[3], '0') + spans[3]
                  AND (bucket >= b.at OR bucket + spans[4] <= b.at) OFFSET 0) r WHERE levels[4] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[5] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
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
