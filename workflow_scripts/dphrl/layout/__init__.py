"""The map of a run: names of policies, and of every artifact its path, schema, config slice and inputs.

The rules make files by it and the audit checks them by it. No digest of code covers this package (artifacts/code.py):
what changes a result is a param or an input of a rule, never computed here by a stage.
"""
