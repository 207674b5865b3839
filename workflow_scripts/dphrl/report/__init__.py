"""The report of a run, its audit, and its export for another trainer.

- The page: `page`, with its tables (`page_tables`), findings and claims (`findings`) and samples (`shown_samples`).
- Figures: `figures`, a module for each section of the page.
- The tables of the paper: `paper`.
- The end of a run in the terminal: `ending`.
- The audit: `audit`, of single files (`audit_files`) and between them (`audit_between`); `lineage` and `show`.
- Files for another trainer: `export`, with the judge (`reward`).

Shared: `headline` (the headline table, and tables as text), `counts` (tables of counts and costs), `contents` (which
figures and tables a run can fill), `cards` (model cards), `render` (pages from `templates` and `assets`).
"""
