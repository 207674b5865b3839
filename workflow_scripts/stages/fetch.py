"""A name of the hub: its files in the cache, and the list of them."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.hub import HubName, fetch
from dphrl.machine.progress import counted
from dphrl.store.files import write_text

with stage() as job:
    listing = fetch(HubName(**snakemake.params.name))
    size = sum(file["size"] for file in listing["files"].values())
    job.note = f"{counted(len(listing['files']), 'file')}, {size / 1e6:,.0f} MB, commit {listing['commit'][:12]}"
    write_text(Path(snakemake.output.listing), json.dumps(listing, indent=1, sort_keys=True) + "\n")
