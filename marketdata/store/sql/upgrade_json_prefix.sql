-- From the release that called the column json_prefix "told".

ALTER TABLE {rollups} RENAME COLUMN told TO json_prefix;
ALTER TABLE {candle} RENAME COLUMN told TO json_prefix;
