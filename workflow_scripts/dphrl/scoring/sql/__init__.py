"""SQL: a query is run read-only, and its rows are compared with those of the gold query."""
