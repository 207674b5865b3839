"""The contracts between stages: schemas, tables with footers, manifests, digests, timings, progress."""
