"""SQL: a query is run read-only, and its rows are compared with the rows of the gold query."""
