"""Measurements of policies and differences between policies: tables in, tables out, with intervals."""

from dphrl.evaluation.estimator import pass_at_k

__all__ = ["pass_at_k"]
