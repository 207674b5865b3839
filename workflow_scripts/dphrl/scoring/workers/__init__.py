"""Worker processes that can be killed and replaced."""
