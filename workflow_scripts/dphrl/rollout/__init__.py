"""Responses: what is requested, with which seeds, and what answers: an engine or a file of recorded responses."""
