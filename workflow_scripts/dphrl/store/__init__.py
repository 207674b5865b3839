"""The files of a run: schemas, tables with footers, manifests, digests and paths.

The package is in no code digest (code.py): values for a stage are params or inputs of its rule.
"""
