-- Functions of one shard of a version that Citus distributes. store/shards.py creates them in addition to those of the other
-- scripts. The names in braces are those of the shard's tables and functions, {lock_here} is {lock} of ingest.sql, and
-- {all_symbols} is the distributed table.

-- Keeps the shard of these symbols and aliases on this node until the transaction ends. The DELETE goes through Citus and finds no
-- row. It takes the lock for which a move of the shard waits. Raises an error if the shard is on another node already.
CREATE OR REPLACE FUNCTION {keep_here}(names text[]) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stored_name CONSTANT text := {canonical}(names[1]);
BEGIN
    DELETE FROM {all_symbols} WHERE symbol = stored_name AND version < 0;
    IF NOT {is_here} THEN
        RAISE EXCEPTION 'the shard of % is on another node', names[1] USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Does the same as {lock} of ingest.sql, on the node that has the shard.
CREATE OR REPLACE FUNCTION {lock}(names text[]) RETURNS TABLE (symbol text, version bigint, pruned_until timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM {keep_here}(names);
    RETURN QUERY SELECT * FROM {lock_here}(names);
END $$;
