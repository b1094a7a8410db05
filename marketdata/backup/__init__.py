"""Backup and restore: the database, and the files of the state directory that belong to it. By the same programs, the
conversion of the private cluster to another major version of PostgreSQL.

FOLDER/manifest.json     the format, the release, the time, and the SHA-256 of every other file
FOLDER/database.dump     pg_dump's custom format
FOLDER/state/            vN.env, and the outboxes of the ingestor and the demo source with the chain of the latter
FOLDER/secrets/          the token files, so a backup is as secret as they are
"""
