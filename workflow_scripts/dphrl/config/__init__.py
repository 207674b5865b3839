"""The configuration, one module per block; empty so that a stage depends on the blocks that it imports only."""
