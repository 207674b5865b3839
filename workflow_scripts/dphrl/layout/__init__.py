"""The layout of a run: names of policies, and the files that a configuration plans.

The rules declare the inputs of a stage, and its footers record them. The package is not part of the code digest
(artifacts/code.py), so no stage computes a result with it: values for a stage are params or inputs of its rule.
"""
