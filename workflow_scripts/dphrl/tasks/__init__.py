"""What a task is: rows of a dataset as prompts and gold."""
