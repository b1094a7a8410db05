"""The GraphQL engine, Hasura: its credential, its metadata API, and what it tracks of a version."""
