"""Access to PostgreSQL: the pool, the schema, and one module per aggregate. Only this package and ``bootstrap`` import
psycopg."""
