"""Policies: loading, log-probs of response tokens, responses by an engine, and ranks that share a model."""
