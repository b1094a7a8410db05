-- The functions that store/ticks.py calls to write. Each locks its symbols first; rollups.sql describes the locks. {ingest} and
-- {retract} set marketdata.writer, and set it back at their end. The clause SET of CREATE FUNCTION would do this, but PostgreSQL
-- allows it only superusers, for a setting that no extension defines.

-- Returns the symbol that an alias stands for; any other name is returned as it is. All versions share the aliases.
CREATE FUNCTION {canonical}(name text) RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT a.symbol FROM {aliases} a WHERE a.alias = name), name)
$$;

-- The same for several names.
CREATE FUNCTION {canonicals}(names text[]) RETURNS text[] LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM {aliases} WHERE alias = ANY (names)) THEN
        RETURN ARRAY(SELECT coalesce(a.symbol, u.name) FROM unnest(names) WITH ORDINALITY AS u (name, item)
                     LEFT JOIN {aliases} a ON a.alias = u.name ORDER BY u.item);
    END IF;
    RETURN names;
END $$;

-- Converts microseconds since 1970 to a time. PostgreSQL multiplies intervals in floating point. Seconds and microseconds
-- are multiplied separately, so that the products are exact for all times that ticks can have.
CREATE FUNCTION {instant}(us bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT '1970-01-01Z'::timestamptz + (us / 1000000) * interval '1 second' + (us % 1000000) * interval '1 microsecond'
$$;

-- Locks the symbols until the transaction ends. One INSERT takes all locks in the order of the symbols. If the existing
-- symbols were locked first and the new ones inserted after them, the order would differ and two transactions could
-- deadlock. Returns each symbol with its new counter, and with its line: ticks before pruned_until are refused.
CREATE FUNCTION {lock}(names text[]) RETURNS TABLE (symbol text, version bigint, pruned_until timestamptz) LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    INSERT INTO {symbols} AS s (symbol, version)
    SELECT DISTINCT coalesce(a.symbol, name) COLLATE "C", 1
    FROM (SELECT DISTINCT name FROM unnest(names) AS name) n LEFT JOIN {aliases} a ON a.alias = name
    ORDER BY 1
    ON CONFLICT (symbol) DO UPDATE SET version = s.version + 1, written_at = clock_timestamp()
    RETURNING s.symbol, s.version, s.pruned_until;
END $$;

-- Stores ticks, given as one array per column; times are microseconds since 1970. Returns the items (numbered from 1) that
-- were not created, with their outcome. duplicate: the identical tick is stored. conflict: a different tick with this id is
-- stored. retracted: the block of the tick is retracted. pruned: the tick is below the line of its symbol. Numbers are compared
-- by value: 1.50 equals 1.5. Further rows, without an item, have the new counter of each symbol, and of each alias among the
-- given names.
CREATE FUNCTION {ingest}(symbols text[], ids text[], times bigint[], seqs bigint[], prices numeric[], sizes numeric[],
                         sides text[], block_numbers bigint[], block_hashes text[], txs text[])
RETURNS TABLE (item bigint, outcome text, name text, version bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    writer CONSTANT text := coalesce(current_setting('marketdata.writer', true), '');
    created_symbols text[];
    created_ids text[];
    names CONSTANT text[] := symbols;
    locked text[];
    counters bigint[];
    line timestamptz;
    given bigint[];  -- the original numbers of the items, if some were refused as pruned
BEGIN
    -- The aliases are looked up twice, because one may be removed while the lock waits, or added just before.
    symbols := {canonicals}(symbols);
    SELECT array_agg(l.symbol), array_agg(l.version), max(l.pruned_until) INTO locked, counters, line FROM {lock}(symbols) l;
    symbols := {canonicals}(symbols);
    RETURN QUERY SELECT NULL::bigint, NULL::text, u.symbol, u.version FROM unnest(locked, counters) AS u (symbol, version);
    IF symbols <> names THEN
        RETURN QUERY SELECT DISTINCT NULL::bigint, NULL::text, u.name, s.version
                     FROM unnest(names, symbols) AS u (name, symbol) JOIN {symbols} s ON s.symbol = u.symbol WHERE u.name <> u.symbol;
    END IF;
    IF line > '-infinity' AND (SELECT min(us) FROM unnest(times) AS us) < (extract(epoch FROM line) * 1000000)::bigint THEN
        -- Refuse the ticks below the lines of their symbols, and go on with the others.
        RETURN QUERY SELECT u.item, 'pruned', NULL::text, NULL::bigint FROM unnest(symbols, times) WITH ORDINALITY AS u (symbol, us, item)
                     JOIN {symbols} s ON s.symbol = u.symbol WHERE {instant}(u.us) < s.pruned_until;
        SELECT array_agg(u.item ORDER BY u.item), array_agg(u.symbol ORDER BY u.item), array_agg(u.id ORDER BY u.item),
               array_agg(u.us ORDER BY u.item), array_agg(u.seq ORDER BY u.item), array_agg(u.price ORDER BY u.item),
               array_agg(u.size ORDER BY u.item), array_agg(u.side ORDER BY u.item), array_agg(u.block_number ORDER BY u.item),
               array_agg(u.block_hash ORDER BY u.item), array_agg(u.tx ORDER BY u.item)
        INTO given, symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs
        FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
             WITH ORDINALITY AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx, item)
        JOIN {symbols} s ON s.symbol = u.symbol WHERE {instant}(u.us) >= s.pruned_until;
        IF given IS NULL THEN
            RETURN;
        END IF;
    END IF;
    PERFORM set_config('marketdata.writer', 'locked', true);
    -- Usually all ticks are new, so a plain INSERT is tried first. A search for the ids before it, or ON CONFLICT, would
    -- take a third longer. Because of the lock no other transaction can insert one of these ids at the same time.
    IF block_hashes IS NULL OR NOT EXISTS (
        SELECT FROM (SELECT DISTINCT u.symbol, u.block_hash FROM unnest(symbols, block_hashes) AS u (symbol, block_hash)) given
        JOIN {retracted} r ON r.symbol = given.symbol AND r.block_hash = given.block_hash
    ) THEN
        BEGIN
            INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx)
            SELECT u.symbol, u.id, {instant}(u.us), u.seq, u.price, u.size, u.side, u.block_number, u.block_hash, u.tx
            FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
                 AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx);
            PERFORM set_config('marketdata.writer', writer, true);
            RETURN;
        EXCEPTION WHEN unique_violation THEN  -- an id is stored already or occurs twice: continue below
        END;
    END IF;
    WITH stored AS (
        INSERT INTO {ticks} (symbol, id, ts, seq, price, size, side, block_number, block_hash, tx)
        SELECT u.symbol, u.id, {instant}(u.us), u.seq, u.price, u.size, u.side, u.block_number, u.block_hash, u.tx
        FROM unnest(symbols, ids, times, seqs, prices, sizes, sides, block_numbers, block_hashes, txs)
             WITH ORDINALITY AS u (symbol, id, us, seq, price, size, side, block_number, block_hash, tx, item)
        WHERE NOT EXISTS (SELECT FROM {retracted} r WHERE r.symbol = u.symbol AND r.block_hash = u.block_hash)
        ORDER BY u.item  -- if two items have the same id, the first is stored
        ON CONFLICT (symbol, id) DO NOTHING
        RETURNING symbol, id
    )
    SELECT array_agg(symbol), array_agg(id) INTO created_symbols, created_ids FROM stored;
    PERFORM set_config('marketdata.writer', writer, true);
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
    SELECT coalesce(given[j.item], j.item),
           CASE WHEN j.retracted THEN 'retracted' WHEN j.same THEN 'duplicate' ELSE 'conflict' END, NULL::text, NULL::bigint
    FROM compared j WHERE NOT j.created ORDER BY j.item;
END $$;

-- Whether a tick of this block is below the line of the symbol, whether it is still stored or not. If a tick of the block is
-- stored, its number tells which rows of {pruned} cannot contain the block. Otherwise all of them are read.
CREATE FUNCTION {is_pruned}(stored_name text, line timestamptz, hash text) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
DECLARE
    first timestamptz;
    number bigint;
BEGIN
    IF line = '-infinity' THEN
        RETURN false;
    END IF;
    SELECT min(ts), max(block_number) INTO first, number FROM {ticks} WHERE symbol = stored_name AND block_hash = hash;
    RETURN first < line IS TRUE OR EXISTS (
        SELECT FROM {pruned} WHERE symbol = stored_name AND (number IS NULL OR max_block >= number)
                               AND hashtextextended(hash, 0) = ANY (blocks));
END $$;

-- Retracts a block that a reorganisation removed from the chain: deletes its ticks, and refuses them until the block is
-- restored. Returns whether this was done; false: a tick of the block is below the line, so nothing was changed.
CREATE FUNCTION {retract}(name text, hash text) RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    writer CONSTANT text := coalesce(current_setting('marketdata.writer', true), '');
    stored_name CONSTANT text := {canonical}(name);
    line CONSTANT timestamptz := (SELECT pruned_until FROM {lock}(ARRAY[stored_name]));
    number bigint;
BEGIN
    IF {is_pruned}(stored_name, line, hash) THEN
        RETURN false;
    END IF;
    PERFORM set_config('marketdata.writer', 'locked', true);
    WITH dropped AS (DELETE FROM {ticks} WHERE symbol = stored_name AND block_hash = hash RETURNING block_number)
    SELECT max(block_number) INTO number FROM dropped;
    PERFORM set_config('marketdata.writer', writer, true);
    INSERT INTO {retracted} (symbol, block_hash, block_number) VALUES (stored_name, hash, number) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

-- Ends the retraction of a block. Its ticks are accepted again; the deleted ticks must be sent again. Returns whether this was
-- done; false: the block is not later than the last candle below the line, so its ticks would be refused. The time of a retracted
-- block is not kept. So for one that was the last block below the line, this is true, although its ticks are refused.
CREATE FUNCTION {restore}(name text, hash text) RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stored_name CONSTANT text := {canonical}(name);
    line CONSTANT timestamptz := (SELECT pruned_until FROM {lock}(ARRAY[stored_name]));
    number bigint;
BEGIN
    SELECT block_number INTO number FROM {retracted} WHERE symbol = stored_name AND block_hash = hash;
    IF FOUND THEN
        IF number <= (SELECT max_block FROM {rollups} WHERE symbol = stored_name AND res = 86400 AND bucket < line
                      AND max_block IS NOT NULL ORDER BY bucket DESC LIMIT 1) THEN
            RETURN false;
        END IF;
    ELSIF {is_pruned}(stored_name, line, hash) THEN
        RETURN false;
    END IF;
    DELETE FROM {retracted} WHERE symbol = stored_name AND block_hash = hash;
    RETURN true;
END $$;

-- Returns the newest time of the ticks up to this block. The search starts at the newest daily candle whose max_block is at
-- most this block, so it reads few ticks.
CREATE FUNCTION {block_time}(stored_name text, block bigint) RETURNS timestamptz LANGUAGE sql STABLE
SET search_path FROM CURRENT AS $$
    SELECT t.ts FROM {ticks} t
    WHERE t.symbol = stored_name AND t.block_number <= block AND t.ts >= coalesce((
        SELECT r.bucket FROM {rollups} r WHERE r.symbol = stored_name AND r.res = 86400 AND r.max_block <= block
        ORDER BY r.bucket DESC LIMIT 1), '-infinity')
    ORDER BY t.ts DESC LIMIT 1
$$;

-- Marks all blocks up to "block" as final, and the candles whose buckets end at or before the time of "block". "us" is this
-- time in microseconds since 1970. If "us" is NULL, the newest time of the ticks up to "block" is used. If "block" is lower
-- than the stored number, nothing changes. The final time never decreases.
CREATE FUNCTION {finalize}(name text, block bigint, us bigint DEFAULT NULL) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    stored_name text := {canonical}(name);
    earlier timestamptz;
    later timestamptz;
BEGIN
    PERFORM {lock}(ARRAY[stored_name]);
    SELECT final_until INTO earlier FROM {symbols} WHERE symbol = stored_name;
    UPDATE {symbols} SET
        finalized_block = block,
        final_until = greatest(nullif(final_until, 'infinity'), '-infinity', coalesce({instant}(us), {block_time}(stored_name, block)))
    WHERE symbol = stored_name AND (finalized_block IS NULL OR finalized_block <= block)
    RETURNING final_until INTO later;
    IF later <> earlier THEN
        PERFORM {changed}(stored_name, least(earlier, later), greatest(earlier, later), 'final');
    END IF;
END $$;

-- Does the same for all symbols of a chain, with one row. "us" is the time of "block". The call of lock takes no symbol, but it
-- waits where other writers do: for a backup, or for another version that becomes the current one.
CREATE FUNCTION {finalize_chain}(name text, block bigint, us bigint) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    earlier timestamptz;
    later timestamptz;
BEGIN
    PERFORM {lock}('{{}}');
    SELECT final_until INTO earlier FROM {chains} WHERE chain = name FOR UPDATE;
    INSERT INTO {chains} AS h (chain, finalized_block, final_until) VALUES (name, block, {instant}(us))
    ON CONFLICT (chain) DO UPDATE SET
        finalized_block = excluded.finalized_block,
        final_until = greatest(h.final_until, excluded.final_until)
    WHERE (h.finalized_block, h.final_until) < (excluded.finalized_block, excluded.final_until)
    RETURNING final_until INTO later;
    IF later > coalesce(earlier, '-infinity') THEN
        PERFORM {changed}(name, coalesce(earlier, '-infinity'), later, 'chain_final');
    END IF;
END $$;
