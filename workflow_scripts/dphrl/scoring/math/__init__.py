"""Mathematics: the final answer is parsed and compared by value."""
