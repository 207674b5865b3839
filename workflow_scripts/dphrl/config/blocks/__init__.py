"""The blocks of the configuration, one module for each."""
