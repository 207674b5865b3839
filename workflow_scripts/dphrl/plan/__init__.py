"""What a configuration will need: memory per GPU, disk, jobs, tokens and hours, before anything runs."""
