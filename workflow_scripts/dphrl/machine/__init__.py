"""The machine of a job: GPUs, private folders of the user, lines of progress, and leftovers of a killed run."""
