"""Tasks: rows of a dataset as prompts and gold."""
