"""The configuration: a model for each block, checks between blocks, loading, and the blocks that each stage uses."""
