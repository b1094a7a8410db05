"""Access to PostgreSQL: the connection pool, the schema, and a module for each kind of data. Only this package,
``operations`` and ``backup`` import psycopg."""
