"""The machine of a job: GPUs, settings, private folders, lines of progress, causes of failures, leftovers of a kill."""
