"""PostgreSQL's side of the service: the pool, the schema, and one module per aggregate. The only user of psycopg
beside ``bootstrap``."""
