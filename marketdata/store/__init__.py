"""Access to PostgreSQL: the pool, the schema, and one module per aggregate. Only this package, ``operations`` and
``backup`` import psycopg."""
