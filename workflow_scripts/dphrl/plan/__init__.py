"""Memory, disk, jobs, tokens and hours of a configuration, before anything runs."""
