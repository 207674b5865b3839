"""The layout of a run: names of policies, and the path, schema, config slice and inputs of every artifact.

The rules and the audit share paths and slices. A rule's inputs are in rules/*.smk and `Layout`; `Kind.inputs` shows
the audit where the inputs in a footer are. The package is not part of the code digest (artifacts/code.py), so no stage
computes a result with it: what it gives to a stage is a param or an input of its rule.
"""
