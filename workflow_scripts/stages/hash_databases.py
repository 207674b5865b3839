"""The databases of a dataset: name, size and sha256 of each."""

from script import snakemake, stage

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import list_databases

with stage() as job:
    listed = SCHEMAS["databases"].frame(list_databases(snakemake.params.folder, snakemake.threads))
    job.note = f"{listed.height} databases, {listed['size'].sum() / 2**30:.1f} GiB"
    job.write(listed, "databases", snakemake.output.databases)
