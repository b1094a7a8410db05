-- From the release before symbols.final_until: candles were final by the numbers of their own blocks.

DROP FUNCTION {finalize}(text, bigint);
DROP FUNCTION {candles_pieced}(text, text, timestamptz, timestamptz, boolean, bigint, integer, integer, interval, interval, bigint);
ALTER TABLE {symbols} ADD COLUMN final_until timestamptz NOT NULL DEFAULT 'infinity';
COMMENT ON COLUMN {symbols}.final_until IS 'A closed candle is final when its bucket ends at or before this time: infinity while the symbol has no block, then -infinity until finalize.';
UPDATE {symbols} s SET final_until = coalesce(
    (SELECT t.ts FROM {ticks} t WHERE t.symbol = s.symbol AND t.block_number <= s.finalized_block ORDER BY t.ts DESC LIMIT 1),
    '-infinity')
WHERE s.finalized_block IS NOT NULL
   OR EXISTS (SELECT FROM {rollups} r WHERE r.symbol = s.symbol AND r.res = 86400 AND r.max_block IS NOT NULL);
