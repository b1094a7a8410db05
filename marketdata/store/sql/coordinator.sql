-- Functions of a version that Citus distributes, for the coordinator. They replace those of the other scripts.

-- Writers of symbols call {lock} of their shard, on its node. Here it is called for no symbol, before the finality of a chain is
-- stored. The UPDATE finds no row. It waits where other writers wait, for another version that becomes the current one, and is
-- refused where they are, in the pause after that (operations/cutover.py).
CREATE OR REPLACE FUNCTION {lock}(names text[]) RETURNS TABLE (symbol text, version bigint, pruned_until timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    IF names <> '{{}}' THEN
        RAISE EXCEPTION 'the symbols of this version are written on the nodes that hold them' USING ERRCODE = 'feature_not_supported';
    END IF;
    UPDATE {symbols} SET version = 0 WHERE symbol = '' AND version < 0;
END $$;
