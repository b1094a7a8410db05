-- Functions of a version that Citus distributes, for the coordinator. They replace those of the other scripts.

-- Writers of symbols call {lock} of their shard, on its node. Here it is called for no symbol, before the finality of a chain is
-- stored. The UPDATE finds no row. While another version becomes the current one, it waits like other writers. During
-- the pause after that it is refused like them (operations/cutover.py).
CREATE OR REPLACE FUNCTION {lock}(names text[]) RETURNS TABLE (symbol text, version bigint, pruned_until timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    IF names <> '{{}}' THEN
        RAISE EXCEPTION 'the symbols of this version are written on the nodes that hold them' USING ERRCODE = 'feature_not_supported';
    END IF;
    UPDATE {symbols} SET version = 0 WHERE symbol = '' AND version < 0;
END $$;
