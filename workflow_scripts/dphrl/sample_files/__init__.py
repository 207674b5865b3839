"""Files of samples as other tools write them, as one table."""
