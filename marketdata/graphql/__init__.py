"""The GraphQL engine, Hasura: its credential, its metadata API, and the tables and functions that it tracks."""
