-- From the release before rollups.buy_volume and buy_quote: computed from the ticks, then from level to level.

ALTER TABLE {rollups} ADD COLUMN buy_volume numeric NOT NULL DEFAULT 0, ADD COLUMN buy_quote numeric NOT NULL DEFAULT 0;
ALTER TABLE {rollups} ALTER COLUMN buy_volume DROP DEFAULT, ALTER COLUMN buy_quote DROP DEFAULT;
ALTER TABLE {candle} ADD COLUMN buy_volume numeric NOT NULL, ADD COLUMN buy_quote numeric NOT NULL;
COMMENT ON COLUMN {rollups}.buy_volume IS 'Sum of the sizes of ticks with side buy, where the taker bought; buy_quote is that of price * size.';

DO $$
DECLARE
    covering regclass;
    level record;
BEGIN
    -- The covering indexes are created again, with these columns; before that, they would have to follow the updates.
    FOR covering IN
        SELECT indexrelid::regclass FROM pg_index
        WHERE indrelid IN ('{rollups_30m}'::regclass, '{rollups_1h}'::regclass, '{rollups_4h}'::regclass) AND indnatts > indnkeyatts
    LOOP
        EXECUTE format('DROP INDEX %s', covering);
    END LOOP;
    UPDATE {rollups} r SET buy_volume = b.volume, buy_quote = b.quote
    FROM (
        SELECT symbol, date_bin('1 min', ts, '1969-01-06Z') AS bucket, trim_scale(sum(size)) AS volume,
               trim_scale(sum(price * size)) AS quote
        FROM {ticks} WHERE side = 'buy' GROUP BY 1, 2
    ) b
    WHERE r.symbol = b.symbol AND r.res = 60 AND r.bucket = b.bucket;
    FOR level IN SELECT * FROM (VALUES (900, 60, interval '15 min'), (1800, 900, interval '30 min'), (3600, 1800, interval '1 hour'),
                                       (14400, 3600, interval '4 hours'), (86400, 14400, interval '24 hours')) AS l (res, below, width)
    LOOP
        UPDATE {rollups} r SET buy_volume = b.volume, buy_quote = b.quote
        FROM (
            SELECT symbol, date_bin(level.width, bucket, '1969-01-06Z') AS bucket, trim_scale(sum(buy_volume)) AS volume,
                   trim_scale(sum(buy_quote)) AS quote
            FROM {rollups} WHERE res = level.below GROUP BY 1, 2
        ) b
        WHERE r.symbol = b.symbol AND r.res = level.res AND r.bucket = b.bucket;
    END LOOP;
END $$;
CREATE INDEX ON {rollups_30m} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
CREATE INDEX ON {rollups_1h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
CREATE INDEX ON {rollups_4h} (symbol, res, bucket) INCLUDE (open, high, low, close, volume, quote, n, buy_volume, buy_quote);
