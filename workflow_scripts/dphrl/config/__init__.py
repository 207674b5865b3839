"""The configuration: one model per block, checks between blocks, loading, and the part that each stage depends on."""
