"""Policies: loading, batches, and the forward pass that gives the log-probs of response tokens."""
