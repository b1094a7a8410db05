-- The function candles returns the candles of a symbol. The bounds "from" and "to" select candles by their opening time,
-- both inclusive; a candle always covers its whole bucket. With "from" the oldest candles are returned first, without it
-- the newest first. max_rows limits them in this order.
--
-- Stored levels are read directly. A candle of another width or time zone is computed from stored rows of the widest
-- level whose rows never cross the bound of a bucket. If a bucket has room for 24 or more of these rows, candles_pieced
-- reads a wider level instead and replaces only the rows that cross a bound by rows of narrower levels. So the number
-- of rows read depends on the number of buckets, not on the time range.
-- Candles of a second are computed from the ticks, one bucket at a time, because a second may contain any number of ticks. So
-- they end at the line of pruned ticks. Below it they are an error, because without them it would seem that nothing was traded.
--
-- time_zone is an offset from UTC like '+05:30', or the name of a time zone. For an offset, "shift" is that offset as an
-- interval. For a name, shift is NULL, and the bounds of buckets are computed by day_start. A day begins when the local clock
-- first shows midnight or, if the clock skips midnight, a later time. Shorter intervals divide the day from its beginning, in
-- real time, so the last bucket of a day of 23 or 25 hours may be shorter. Longer intervals are whole days.

-- Converts a time to milliseconds since 1970. It goes through a timestamp without time zone, because this takes a tenth of
-- the time of extracting a numeric, and is immutable for PostgreSQL. A double represents all these numbers exactly.
CREATE FUNCTION {ms}(ts timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (date_part('epoch', ts AT TIME ZONE 'UTC') * 1000)::bigint
$$;

-- The offset of a time zone from UTC in whole minutes. Only Liberia's offset of 1970 and 1971 has seconds, which are cut off.
CREATE FUNCTION {offset_at}(ts timestamptz, zone text) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT date_trunc('minute', ts AT TIME ZONE zone - ts AT TIME ZONE 'UTC')
$$;

-- The time at which the day that has this local midnight begins. For a day that the zone skips, this is the beginning of the
-- next day. The result is correct because two changes of an offset are always more than two days apart.
CREATE FUNCTION {day_start}(midnight timestamp, zone text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    utc CONSTANT timestamptz := midnight AT TIME ZONE 'UTC';
    before CONSTANT interval := {offset_at}(utc - interval '24 hours', zone);
    later CONSTANT interval := {offset_at}(utc + interval '24 hours', zone);
BEGIN
    IF before = later OR {offset_at}(utc - before, zone) = before THEN
        RETURN utc - before;
    ELSIF {offset_at}(utc - later, zone) = later THEN
        RETURN utc - later;
    END IF;
    RETURN (SELECT min(skipped) FROM generate_series(utc - later, utc - before, interval '1 minute') AS skipped
            WHERE {offset_at}(skipped, zone) = later);
END $$;

-- The local midnight of the day that contains ts. If the clock shows the end of a day again after the next one has begun, this
-- is the next day.
CREATE FUNCTION {local_day}(ts timestamptz, zone text) RETURNS timestamp LANGUAGE sql STABLE AS $$
    SELECT d.day + CASE WHEN {day_start}(d.day + interval '1 day', zone) <= ts THEN interval '1 day' ELSE interval '0' END
    FROM (SELECT date_trunc('day', ts AT TIME ZONE 'UTC' + {offset_at}(ts, zone)) AS day) d
$$;

-- The local midnight at which the bucket of whole days that contains this local time begins. The origin is a Monday, and a
-- multiple of three days before 1970-01-01.
CREATE FUNCTION {first_day}(local timestamp, width interval) RETURNS timestamp LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN width = interval '1 month' THEN date_trunc('month', local) ELSE date_bin(width, local, '1969-01-06') END
$$;

-- The opening time of the bucket that contains ts.
CREATE FUNCTION {bucket_of}(ts timestamptz, width interval, shift interval, zone text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN shift IS NOT NULL AND width = interval '1 month' THEN date_trunc('month', ts + shift, 'UTC') - shift
                WHEN shift IS NOT NULL THEN date_bin(width, ts, '1969-01-06Z'::timestamptz - shift)
                WHEN width < interval '1 day' THEN date_bin(width, ts, {day_start}({local_day}(ts, zone), zone))
                ELSE {day_start}({first_day}({local_day}(ts, zone), width), zone) END
$$;

-- The end of the bucket that opens at "opened".
CREATE FUNCTION {bucket_end}(opened timestamptz, width interval, shift interval, zone text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN shift IS NOT NULL AND width = interval '1 month'
                THEN ((opened + shift) AT TIME ZONE 'UTC' + width) AT TIME ZONE 'UTC' - shift
                WHEN shift IS NOT NULL THEN opened + width
                WHEN width < interval '1 day'
                THEN least(opened + width, {day_start}({local_day}(opened, zone) + interval '1 day', zone))
                ELSE {day_start}({first_day}({local_day}(opened, zone), width) + width, zone) END
$$;

-- The bounds of all buckets that the range touches and one before. For a width below a day, the bounds of the days.
CREATE FUNCTION {bounds}(lowest timestamptz, highest timestamptz, width interval, shift interval, zone text)
RETURNS timestamptz[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(DISTINCT d.at ORDER BY d.at) FROM (
        SELECT CASE WHEN shift IS NULL THEN {day_start}(s.midnight, zone) ELSE s.midnight AT TIME ZONE 'UTC' - shift END AS at
        FROM (SELECT greatest(width, interval '1 day') AS step) w CROSS JOIN LATERAL generate_series(
            {first_day}(lowest AT TIME ZONE 'UTC' - interval '2 days', step),
            highest AT TIME ZONE 'UTC' + interval '1 day' + step, step) AS s (midnight)) d
$$;

-- The same as bucket_of and bucket_end, for many times of a range. "bounds" are the bounds of the range. Without bounds, all
-- buckets have the same width, and one opens at "origin". PostgreSQL inlines the call of one with the other as its argument only
-- if both have few operators. A call for each row would take longer than everything else.
CREATE FUNCTION {opened_in}(ts timestamptz, width interval, origin timestamptz, bounds timestamptz[])
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN bounds IS NULL THEN date_bin(width, ts, origin)
                WHEN width < interval '1 day' THEN date_bin(width, ts, bounds[width_bucket(ts, bounds)])
                ELSE bounds[width_bucket(ts, bounds)] END
$$;
CREATE FUNCTION {ended_in}(opened timestamptz, width interval, bounds timestamptz[]) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN bounds IS NULL THEN opened + width
                WHEN width < interval '1 day' THEN least(opened + width, bounds[width_bucket(opened, bounds) + 1])
                ELSE bounds[width_bucket(opened, bounds) + 1] END
$$;

-- The buckets that open between two opening times, both inclusive.
CREATE FUNCTION {buckets}(lowest timestamptz, highest timestamptz, width interval, shift interval, zone text)
RETURNS TABLE (opened timestamptz, ended timestamptz) LANGUAGE plpgsql STABLE ROWS 500 AS $$
BEGIN
    IF shift IS NOT NULL THEN
        RETURN QUERY SELECT s.local - shift, {bucket_end}(s.local - shift, width, shift, zone)
                     FROM generate_series(lowest + shift, highest + shift, width) AS s (local);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT s.at, least(s.at + b.step, b.next)
    FROM (
        SELECT w.at, w.next, CASE WHEN width < interval '1 day' THEN width ELSE w.next - w.at END AS step
        FROM (SELECT u.at, lead(u.at) OVER (ORDER BY u.at) AS next
              FROM unnest({bounds}(lowest, highest, width, shift, zone)) AS u (at)) w
    ) b CROSS JOIN LATERAL generate_series(b.at, b.next - interval '1 us', b.step) AS s (at)
    WHERE s.at BETWEEN lowest AND highest;
END $$;

-- The line of a symbol, if ticks below it were pruned, else NULL. If "is_below" is true, ticks below the line are needed, and
-- this is an error.
CREATE FUNCTION {cut_at}(symbol text, line timestamptz, is_below boolean) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
BEGIN
    IF line = '-infinity' OR NOT EXISTS (SELECT FROM {rollups} r WHERE r.symbol = $1 AND r.res = 86400 AND r.bucket < line) THEN
        RETURN NULL;
    ELSIF is_below THEN
        RAISE EXCEPTION 'ticks of % before % are pruned: ask for times from then on, or for candles of 1m or longer', symbol,
            to_char(line AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = (extract(epoch FROM line) * 1000)::bigint;  -- for programs
    END IF;
    RETURN line;
END $$;

CREATE FUNCTION {candles}(symbol text, bucket text, "from" timestamptz DEFAULT NULL, "to" timestamptz DEFAULT NULL,
                          max_rows integer DEFAULT 500, fill text DEFAULT 'none', time_zone text DEFAULT '+00:00',
                          current text DEFAULT 'include')
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500
SET search_path FROM CURRENT SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    name     CONSTANT text := coalesce((SELECT a.symbol FROM {aliases} a WHERE a.alias = $1), $1);
    label    CONSTANT text := $2;
    wanted   CONSTANT bigint := $5;
    zone     CONSTANT text := $7;
    forward  CONSTANT boolean := $3 IS NOT NULL;
    seconds  CONSTANT integer := CASE $2
        WHEN '1s' THEN 1 WHEN '1m' THEN 60 WHEN '3m' THEN 180 WHEN '5m' THEN 300 WHEN '15m' THEN 900 WHEN '30m' THEN 1800
        WHEN '1h' THEN 3600 WHEN '2h' THEN 7200 WHEN '4h' THEN 14400 WHEN '6h' THEN 21600 WHEN '8h' THEN 28800
        WHEN '12h' THEN 43200 WHEN '1d' THEN 86400 WHEN '3d' THEN 259200 WHEN '1w' THEN 604800 WHEN '1M' THEN 2678400 END;
    width    CONSTANT interval := CASE $2 WHEN '1M' THEN interval '1 month' ELSE make_interval(secs => seconds) END;
    fixed    CONSTANT interval := CASE WHEN zone ~ '^[+-][0-9]{{2}}:[0-5][0-9]$' THEN zone::interval END;
    -- Seconds and minutes are those of UTC, because offsets count in whole minutes.
    shift    CONSTANT interval := CASE WHEN seconds <= 60 THEN interval '0' ELSE fixed END;
    minutes  CONSTANT integer := date_part('epoch', shift) / 60;
    level    integer;   -- the stored level that is read: the width of its rows in seconds
    step     interval;  -- the same as an interval
    per      bigint;    -- rows of the level per bucket
    origin   timestamptz;
    reach    interval;
    final    timestamptz;  -- candles whose buckets end at or before this time are closed and final
    earliest timestamptz := coalesce($3, '-infinity');
    latest   timestamptz := coalesce($4, 'infinity');
    opened   timestamptz;
    line     timestamptz;
BEGIN
    IF seconds IS NULL OR $5 IS NULL OR $5 < 1 OR $6 NOT IN ('none', 'previous') OR $8 NOT IN ('include', 'exclude')
       OR (fixed BETWEEN '-12:00' AND '14:00' OR zone ~ '^[A-Za-z]' AND now() AT TIME ZONE zone IS NOT NULL) IS NOT TRUE THEN
        RAISE EXCEPTION 'candles: invalid argument among bucket %, max_rows %, fill %, time_zone % and current %',
            $2, $5, $6, $7, $8
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT least(greatest(s.final_until, h.final_until), now()), s.pruned_until INTO final, line
    FROM {symbols} s LEFT JOIN {chains} h ON h.chain = {chain_of}(s.symbol) WHERE s.symbol = name;
    -- Convert the bounds to opening times: the first bucket that opens at or after "from", the last one at or before "to".
    IF isfinite(earliest) THEN
        opened := {bucket_of}(earliest, width, shift, zone);
        earliest := CASE WHEN opened < earliest THEN {bucket_end}(opened, width, shift, zone) ELSE opened END;
    END IF;
    IF $8 = 'exclude' THEN
        latest := least(latest, {bucket_of}({bucket_of}(now(), width, shift, zone) - interval '1 us', width, shift, zone));
    END IF;
    IF isfinite(latest) THEN
        latest := {bucket_of}(latest, width, shift, zone);
    END IF;
    IF seconds = 1 AND line > '-infinity' THEN
        line := {cut_at}(name, line, forward AND earliest < line OR latest < line);
        earliest := greatest(earliest, line);
    END IF;

    IF $6 = 'previous' THEN
        RETURN QUERY SELECT * FROM {candles_filled}(name, label, earliest, latest, forward, wanted, width, shift, zone, final);
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
        IF NOT FOUND AND NOT forward AND line > '-infinity' THEN
            PERFORM {cut_at}(name, line, true);
        END IF;
        RETURN;
    END IF;

    -- The widest level whose width divides both the bucket's width and the shift. In a named zone it depends on the bounds.
    level := CASE WHEN shift IS NULL THEN NULL
                  WHEN seconds % 86400 = 0 AND minutes = 0 THEN 86400
                  WHEN seconds % 14400 = 0 AND minutes % 240 = 0 THEN 14400
                  WHEN seconds % 3600 = 0 AND minutes % 60 = 0 THEN 3600
                  WHEN seconds % 1800 = 0 AND minutes % 30 = 0 THEN 1800
                  WHEN seconds % 900 = 0 AND minutes % 15 = 0 THEN 900 ELSE 60 END;
    step := make_interval(secs => level);
    per := seconds / level;
    IF isfinite(latest) THEN
        latest := {bucket_end}(latest, width, shift, zone);
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
    IF per >= 24 OR level IS NULL THEN
        RETURN QUERY SELECT * FROM {candles_pieced}(name, label, earliest, latest, forward, wanted, seconds, level, width, shift, zone, final);
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
            ORDER BY bucket DESC OFFSET wanted * per - 1 LIMIT 1), width, shift, zone));
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
                                 width interval, shift interval, zone text, final timestamptz)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500 SET search_path FROM CURRENT SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    before numeric;
    minute timestamptz;
    first_tick CONSTANT timestamptz := (
        SELECT first_ts FROM {rollups} WHERE symbol = name AND res = 86400 ORDER BY bucket LIMIT 1);
    last_tick CONSTANT timestamptz := (
        SELECT last_ts FROM {rollups} WHERE symbol = name AND res = 86400 ORDER BY bucket DESC LIMIT 1);
BEGIN
    IF first_tick IS NULL THEN
        RETURN;  -- all ticks were retracted; greatest() below would ignore the null
    END IF;
    earliest := greatest(earliest, {bucket_of}(first_tick, width, shift, zone));
    latest := least(latest, {bucket_of}(greatest(now(), last_tick), width, shift, zone));
    IF earliest > latest THEN
        RETURN;
    ELSIF shift IS NULL THEN  -- a day of 25 hours is longer than its width, so the range is two days longer
        SELECT min(b.opened), max(b.opened) INTO earliest, latest FROM (
            SELECT u.opened FROM {buckets}(
                CASE WHEN forward THEN earliest ELSE greatest(earliest, latest - wanted * width - interval '2 days') END,
                CASE WHEN forward THEN least(latest, earliest + wanted * width + interval '2 days') ELSE latest END,
                width, shift, zone) u
            ORDER BY CASE WHEN forward THEN u.opened END, u.opened DESC LIMIT wanted) b;
    ELSIF forward THEN
        latest := least(latest, earliest + shift + (wanted - 1) * width - shift);
    ELSE
        earliest := greatest(earliest, latest + shift - (wanted - 1) * width - shift);
    END IF;
    -- Only buckets of a second may begin within a minute.
    minute := date_bin('1 min', earliest, '1969-01-06Z');
    before := coalesce(
        (SELECT trim_scale(price) FROM {ticks} WHERE symbol = name AND ts >= minute AND ts < earliest
         ORDER BY ts DESC, seq DESC, id DESC LIMIT 1),
        (SELECT close FROM {rollups} WHERE symbol = name AND res = 60 AND bucket < minute ORDER BY bucket DESC LIMIT 1));
    RETURN QUERY
    SELECT name, label, f.opened, f.ended, coalesce(f.open, f.carried), coalesce(f.high, f.carried),
           coalesce(f.low, f.carried), f.carried, coalesce(f.volume, 0), coalesce(f.quote, 0), coalesce(f.n, 0), f.vwap,
           f.ended <= now(), f.ended <= final, f.json_prefix,
           coalesce(f.buy_volume, 0), coalesce(f.buy_quote, 0)
    FROM (
        SELECT g.*, coalesce(first_value(g.close) OVER (PARTITION BY g.run ORDER BY g.opened), before) AS carried
        FROM (
            SELECT s.opened, s.ended, c.open, c.high, c.low, c.close, c.volume, c.quote, c.n, c.vwap, c.json_prefix,
                   c.buy_volume, c.buy_quote,
                   count(c.close) OVER (ORDER BY s.opened) AS run
            FROM {buckets}(earliest, latest, width, shift, zone) s
            LEFT JOIN {candles}(name, label, earliest, latest, wanted::integer, 'none', zone) c ON c.t = s.opened
        ) g
    ) f
    ORDER BY CASE WHEN forward THEN f.opened END, f.opened DESC;
END $$;

-- Returns candles whose buckets do not start at bounds of a wide level, for example days in a time zone. It reads the rows
-- of the widest level that is at most half as wide as the bucket ("coarse"). Rows that cross the bound of a bucket are
-- replaced by rows of the next narrower level, and so on down to the level "fine", whose rows never cross a bound. Each
-- level has a separate branch of the UNION, so that its partition is looked up once and not once per bound.
-- OFFSET 0 keeps PostgreSQL from computing "opened" once for each use.
-- In a named zone whose offset does not change in the range, it returns the candles of this offset. Otherwise buckets shorter
-- than a day are read from the level "fine" alone, because the last bucket of a day may be shorter than a row of a wider level.
CREATE FUNCTION {candles_pieced}(name text, label text, earliest timestamptz, latest timestamptz, forward boolean, wanted bigint,
                                 seconds integer, fine integer, width interval, shift interval, zone text, final timestamptz)
RETURNS SETOF {candle} LANGUAGE plpgsql STABLE ROWS 500
SET search_path FROM CURRENT SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    stored CONSTANT integer[] := ARRAY(SELECT res FROM (VALUES (60), (900), (1800), (3600), (14400), (86400)) AS l (res));
    coarse CONSTANT integer := (SELECT max(res) FROM unnest(stored) AS l (res) WHERE res * 2 <= seconds AND res <> 1800);
    span   interval := make_interval(secs => coarse);
    has_long_days CONSTANT boolean := shift IS NULL AND seconds >= 86400;
    -- Without gaps, the wanted buckets have at most one row more than this number.
    rows_without_gaps CONSTANT bigint := wanted * (seconds / coarse) + CASE WHEN has_long_days THEN 86400 / coarse ELSE 0 END;
    -- With gaps, each bucket may need one row more, and another one if it has a day of more than 24 hours.
    rows_with_gaps CONSTANT bigint := rows_without_gaps + CASE WHEN has_long_days THEN 2 * wanted ELSE wanted END;
    origin CONSTANT timestamptz := '1969-01-06Z'::timestamptz - shift;
    bounds timestamptz[];
    ahead  interval;
    levels integer[];
    spans  interval[];
    near   timestamptz;  -- the first row to read, in the order of the result
    far    timestamptz;  -- the last row to read
    beyond timestamptz;  -- the end of the time range to read
    lowest timestamptz;  -- the beginning of the first row in time
    highest timestamptz; -- the end of the last one
    opened timestamptz;  -- the beginning of the first bucket or, for buckets shorter than a day, of its day
    ended  timestamptz;  -- the end of the last bucket
BEGIN
    IF forward THEN
        near := (SELECT min(bucket) FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest);
        far := (SELECT bucket FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
            ORDER BY bucket OFFSET rows_without_gaps LIMIT 1);
        IF far - near > rows_without_gaps * span THEN
            far := (SELECT bucket FROM {rollups}
                WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
                ORDER BY bucket OFFSET rows_with_gaps LIMIT 1);
        END IF;
        beyond := far + span;
    ELSE
        near := (SELECT max(bucket) FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest);
        far := (SELECT bucket FROM {rollups}
            WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
            ORDER BY bucket DESC OFFSET rows_without_gaps LIMIT 1);
        IF near - far > rows_without_gaps * span THEN
            far := (SELECT bucket FROM {rollups}
                WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < latest
                ORDER BY bucket DESC OFFSET rows_with_gaps LIMIT 1);
        END IF;
        earliest := greatest(earliest, {bucket_of}(far, width, shift, zone));
    END IF;
    beyond := least(latest, beyond);
    SELECT min(bucket), max(bucket) + span INTO lowest, highest FROM {rollups}
    WHERE symbol = name AND res = coarse AND bucket > earliest - span AND bucket < beyond;
    IF lowest IS NULL THEN
        RETURN;
    END IF;
    IF shift IS NULL THEN
        opened := {bucket_of}(lowest, greatest(width, interval '1 day'), shift, zone);
        ended := {bucket_end}({bucket_of}(highest, width, shift, zone), width, shift, zone);
        ahead := {offset_at}(opened - interval '1 us', zone);
        -- Each offset of a zone was in force for more than five days.
        IF NOT EXISTS (SELECT FROM generate_series(opened, ended + interval '5 days', interval '5 days') AS s (at)
                       WHERE {offset_at}(s.at, zone) <> ahead) THEN
            RETURN QUERY SELECT * FROM {candles}(
                name, label, CASE WHEN forward THEN greatest(earliest, opened) END, least(latest, highest) - interval '1 us',
                wanted::integer, 'none', CASE WHEN ahead < interval '0' THEN '-' ELSE '+' END || to_char(greatest(ahead, -ahead), 'HH24:MI'));
            RETURN;
        END IF;
        bounds := {bounds}(lowest, highest, width, shift, zone);
        fine := (SELECT max(res) FROM unnest(stored) AS l (res)
                 WHERE seconds % res = 0 AND (res < seconds OR seconds < 86400) AND NOT EXISTS (
                     SELECT FROM unnest(bounds) AS b (at) WHERE date_part('epoch', b.at)::bigint % res <> 0));
    ELSIF width = interval '1 month' THEN
        bounds := {bounds}(lowest, highest, width, shift, zone);
    END IF;
    -- A level costs an index scan per bound, which can take longer than reading the rows that it saves. So half hours are
    -- used only as the last level, and hours only if no half hours follow.
    levels := CASE WHEN fine > coarse OR (shift IS NULL AND seconds < 86400) THEN ARRAY[fine] ELSE (
        SELECT array_agg(res ORDER BY res DESC) FROM unnest(stored) AS l (res)
        WHERE res <= coarse AND res >= fine AND (res <> 1800 OR fine = 1800) AND (res <> 3600 OR fine <> 1800)) END;
    spans := (SELECT array_agg(make_interval(secs => res) ORDER BY res DESC) FROM unnest(levels) AS l (res));
    span := spans[1];
    RETURN QUERY
    WITH bound AS (  -- the bounds of buckets that are inside a row of the level "coarse"
        SELECT r.at FROM (
            SELECT bucket, {ended_in}({opened_in}(bucket, width, origin, bounds), width, bounds) AS at
            FROM {rollups} WHERE symbol = name AND res = levels[1] AND bucket > earliest - span AND bucket < beyond) r
        WHERE r.at < r.bucket + span
    )
    SELECT name, label, c.opened, {ended_in}(c.opened, width, bounds),
           coalesce(c.open, (SELECT r.open FROM {rollups} r WHERE r.symbol = name AND r.res = fine AND r.bucket >= c.opened
                           ORDER BY r.bucket LIMIT 1)), c.high, c.low,
           coalesce(c.close, (SELECT r.close FROM {rollups} r WHERE r.symbol = name AND r.res = fine AND r.bucket < {ended_in}(c.opened, width, bounds)
                           ORDER BY r.bucket DESC LIMIT 1)), c.volume, c.quote, c.n,
           {vwap}(c.quote, c.volume), {ended_in}(c.opened, width, bounds) <= now(),
           {ended_in}(c.opened, width, bounds) <= final, NULL::text, c.buy_volume, c.buy_quote
    FROM (
        SELECT p.opened, max(p.open) FILTER (WHERE p.bucket = p.opened) AS open, max(p.high) AS high, min(p.low) AS low,
               max(p.close) FILTER (WHERE p.row_end = {ended_in}(p.opened, width, bounds)) AS close,
               trim_scale(sum(p.volume)) AS volume, trim_scale(sum(p.quote)) AS quote, sum(p.n)::bigint AS n,
               trim_scale(sum(p.buy_volume)) AS buy_volume, trim_scale(sum(p.buy_quote)) AS buy_quote
        FROM (
            SELECT * FROM (
                SELECT bucket, bucket + span AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {opened_in}(bucket, width, origin, bounds) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[1] AND bucket > earliest - span AND bucket < beyond OFFSET 0) r
            WHERE {ended_in}(r.opened, width, bounds) >= r.bucket + span
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[2] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {opened_in}(bucket, width, origin, bounds) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[2]
                  AND bucket >= date_bin(spans[1], b.at, '1969-01-06Z') AND bucket < date_bin(spans[1], b.at, '1969-01-06Z') + spans[1]
                  AND (bucket >= b.at OR bucket + spans[2] <= b.at) OFFSET 0) r WHERE levels[2] IS NOT NULL
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[3] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {opened_in}(bucket, width, origin, bounds) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[3]
                  AND bucket >= date_bin(spans[2], b.at, '1969-01-06Z') AND bucket < date_bin(spans[2], b.at, '1969-01-06Z') + spans[2]
                  AND (bucket >= b.at OR bucket + spans[3] <= b.at) OFFSET 0) r
            WHERE levels[3] IS NOT NULL AND b.at > date_bin(spans[2], b.at, '1969-01-06Z')
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[4] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {opened_in}(bucket, width, origin, bounds) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[4]
                  AND bucket >= date_bin(spans[3], b.at, '1969-01-06Z') AND bucket < date_bin(spans[3], b.at, '1969-01-06Z') + spans[3]
                  AND (bucket >= b.at OR bucket + spans[4] <= b.at) OFFSET 0) r
            WHERE levels[4] IS NOT NULL AND b.at > date_bin(spans[3], b.at, '1969-01-06Z')
            UNION ALL
            SELECT r.* FROM bound b CROSS JOIN LATERAL (
                SELECT bucket, bucket + spans[5] AS row_end, open, high, low, close, volume, quote, n, buy_volume, buy_quote,
                       {opened_in}(bucket, width, origin, bounds) AS opened
                FROM {rollups} WHERE symbol = name AND res = levels[5]
                  AND bucket >= date_bin(spans[4], b.at, '1969-01-06Z') AND bucket < date_bin(spans[4], b.at, '1969-01-06Z') + spans[4]
                  AND (bucket >= b.at OR bucket + spans[5] <= b.at) OFFSET 0) r
            WHERE levels[5] IS NOT NULL AND b.at > date_bin(spans[4], b.at, '1969-01-06Z')
        ) p
        WHERE p.opened >= earliest AND p.opened < latest
        GROUP BY p.opened
    ) c
    ORDER BY CASE WHEN forward THEN c.opened END, c.opened DESC LIMIT wanted;
END $$;
