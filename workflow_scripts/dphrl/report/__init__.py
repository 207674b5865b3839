"""The report of a run, in four parts.

- The page of a run: `page`, with its tables (`page_tables`), answers and claims (`answers`) and samples (`samples`).
- Figures: `figures`, a module for each section of the page.
- The tables of the paper: `paper`.
- The end of a run in the terminal: `terminal`.

Shared: `headline` (the headline table, and tables as text), `counts` (tables of counts and costs), `contents` (which
figures and tables a run can fill), `cards` (model cards).
"""
