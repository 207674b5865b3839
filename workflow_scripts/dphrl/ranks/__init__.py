"""Processes that work on one job together, each with a part of a model."""
