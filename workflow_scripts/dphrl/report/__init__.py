"""The report of a run, its audit, and its export for another trainer.

- The page: `page`, with its result (`findings`), tables (`page_tables`, `claims`, `headline`, `published`) and notes
  (`notes`). The words of claims are in claims.yaml, the values of the paper in published.yaml.
- Diagnoses: of the methods of a run (`collapse`), and any diagnosis in words (`sentences`).
- Pages of all samples: `sample_pages`. Model cards: `cards`.
- Figures: `figures`, a module for each section of the page.
- The audit: `audit`, of single files (`audit_files`) and between them (`audit_between`); `lineage` and `show`.
- Files for another trainer: `export`, with the judge (`reward`).

Shared: `methods` (labels and colours), `text_tables` (tables as text and files), `counts` (what became of rows, what a
training used), `contents` (which figures and tables a run can fill, and its last lines in the terminal), `render`
(pages from `templates` and `assets`).
"""
