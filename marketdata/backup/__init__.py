"""Backs up and restores the database and the files that belong to it. Also converts the private cluster to another
major version of PostgreSQL, because this needs the same client programs. A backup is a folder:

FOLDER/manifest.json     the format, the release, the time, and the SHA-256 of every other file
FOLDER/database.dump     pg_dump's custom format
FOLDER/state/            vN.env, PREFIX-vN.env, the outboxes of ingestor and demo source, and the demo source's chain
FOLDER/secrets/          the token files, so a backup is as secret as these
"""
