"""The audit of a whole run, its summary, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.manifest import SUMS, read_sums
from dphrl.audit.across import check_datasets, check_partition, check_rollouts
from dphrl.audit.artifacts import NAME_IT, RECORDED, Artifact, Run, is_removable, manifest_above
from dphrl.audit.lineage import check_lineage
from dphrl.audit.one_artifact import check_artifact, check_footer
from dphrl.audit.reference import check_reference, decoder, lacks_tokenizer
from dphrl.layout.kinds import is_known
from dphrl.machine.progress import counted
from dphrl.pages.render import render
from dphrl.pages.visible import visible

_TO_MAKE = r"(?:\bis missing\b|\bDelete )"


class AuditError(RuntimeError):
    """Checks failed; the text holds them."""


def audit_run(folder: Path) -> pl.DataFrame:
    """`audit` of the run in a folder.

    Raises:
        NoRunError: the folder holds no run.
    """
    return audit(Run(folder))


def print_audit(folder: Path) -> int:
    """Audit the run in a folder and print the summary; the exit status is 1 if a check failed.

    Raises:
        NoRunError: the folder holds no run.
    """
    run = Run(folder)
    table = audit(run)
    print(summary(table))
    for text in (*facts(run), again(table, folder)):
        if text:
            print(visible(text))
    return 1 if failed_checks(table) else 0


def audit(run: Run) -> pl.DataFrame:
    """Check every artifact of a run folder by itself and against the others; nothing is changed.

    A run is finished if it holds an audit. Only then timings, the page and the audit are checked, and every file is
    compared with SHA256SUMS. Logs are left out.
    A check that needs a damaged or missing artifact is skipped, as a check of that artifact failed already. A check
    that ends in an error counts as failed. Snakemake detects later changes of the code and the configuration.

    Returns:
        The table "audit": artifact (path in the run folder), schema, rows (of a table; files of a manifest, tensors of
        a safetensors file), sha256, digest, passed, failed (the fault, the first wrong rows, the remedy).
    """
    for artifact in run.artifacts.values():
        check_artifact(artifact)
    for artifact in run.artifacts.values():
        artifact.attempt(check_footer, run, artifact)
        artifact.attempt(check_lineage, run, artifact)
    check_datasets(run)
    check_rollouts(run, decoder(run))
    for draw in run.draws:
        check_reference(run, draw)
        check_partition(run, draw)
    if RECORDED in run.artifacts or SUMS in run.artifacts:
        _check_recorded(run)
    columns = list(SCHEMAS["audit"].columns)[1:]
    rows = [
        [visible(path, keep=""), *(getattr(artifact, name) for name in columns)]
        for path, artifact in run.artifacts.items()
    ]
    # Two names with undecodable bytes can have the same visible form.
    return SCHEMAS["audit"].frame(rows).unique("artifact", keep="first", maintain_order=True).sort("artifact")


def _check_recorded(run: Run) -> None:
    """Compare every file with SHA256SUMS, which the last audit wrote: figures and texts have no footer to compare."""
    listing = run.artifacts.setdefault(SUMS, Artifact(SUMS, run.root / SUMS))
    if not listing.check(listing.file.is_file(), f"{SUMS} is missing, but an audit of this run wrote it", NAME_IT):
        return
    sums = listing.attempt(read_sums, run.root)
    if sums is None:
        return
    hashes = run.hashed()
    for path, sha256 in sums.items():
        file, manifest = run.root / path, manifest_above(Path(path))
        if manifest is None and not is_known(path):
            continue  # A file that people keep in the run.
        place = manifest or path
        artifact = run.artifacts.setdefault(place, Artifact(place, run.root / place))
        if artifact.failed:
            continue  # Another check failed for its damage already.
        if artifact.check(file.is_file(), f"{path} is missing, but {SUMS} lists it", NAME_IT):
            now = hashes.get(file) or artifact.hash(file)
            then_now = f"({sha256[:12]} then, {now[:12]} now)"
            artifact.check(now == sha256, f"{path} is not the file that {SUMS} lists {then_now}")
    recorded = run.scan(RECORDED)
    if recorded is not None:
        seen = recorded.filter(pl.col("failed").list.len() == 0).select("artifact", "sha256").collect().iter_rows()
        odd = [path for path, sha256 in seen if sums.get(path, sha256 if is_removable(path) else None) != sha256]
        listing.check(not odd, f"{SUMS} lists other files than the last audit saw: {', '.join(odd[:5])}", NAME_IT)


def summary(table: pl.DataFrame) -> str:
    """The audit for a terminal: a line per kind of artifact, and every failed check."""
    kinds = kinds_of(table)
    width = max(len(kind) for kind in [*kinds["kind"], "kind"])
    lines = [f"{'kind':<{width}}  artifacts  checks  failed"]
    for kind, artifacts, passed, failures in kinds.rows():
        lines.append(f"{kind:<{width}}  {artifacts:9}  {passed + failures:6}  {failures:6}")
    failed = failed_checks(table)
    lines += [f"FAILED  {text}" for text in failed]
    count = counted(len(failed), "check")
    lines.append(f"{count} failed." if failed else f"All {counted(int(table['passed'].sum()), 'check')} passed.")
    return "\n".join(lines)


def facts(run: Run) -> Iterator[str]:
    """Lines that a reader of the summary may need: texts that were not compared, the code that made the run."""
    if lacks_tokenizer(run):
        yield "Not compared: texts with their tokens (the base policy has no tokenizer.json)."
    made = [f"{name} ({counted(jobs, 'job')})" for name, jobs in run.made_by.most_common()]
    if made:
        yield f"Made by {', '.join(made)}."
    recorded = run.scan(RECORDED)
    if recorded is not None:
        own = recorded.select(pl.col("passed").sum() + pl.col("failed").list.len().sum()).collect().item()
        yield (
            f"The audit at the end of the run made {counted(int(own), 'check')}. Here are more: the timings, the pages "
            "and that audit, which were not complete then, and for each file whether it is still as that audit saw it."
        )


def kinds_of(table: pl.DataFrame) -> pl.DataFrame:
    """Artifacts and checks by kind (the first folder): kind, artifacts, passed, failed."""
    return (
        table.group_by(kind=pl.col("artifact").str.split("/").list.first())
        .agg(artifacts=pl.len(), passed=pl.col("passed").sum(), failed=pl.col("failed").list.len().sum())
        .sort("kind")
    )


def failed_checks(table: pl.DataFrame) -> list[str]:
    """The text of every failed check."""
    return [text for texts in table["failed"].to_list() for text in texts]


def again(table: pl.DataFrame, root: Path) -> str | None:
    """The commands that make missing and damaged artifacts again; None without any.

    While the products of an intermediate file exist, Snakemake makes it again only if the command names it. The rest of
    the run follows by itself. Snakemake then compares contents: a training with the same input does not run again.

    Args:
        root: folder of the run, from where Snakemake runs.
    """
    wanted = table.filter(pl.col("failed").list.eval(pl.element().str.contains(_TO_MAKE)).list.any())
    if wanted.is_empty():
        return None
    paths = " ".join(str(root / path) for path in wanted["artifact"])
    snakemake, config = ".venv/bin/snakemake --cores 2", "--configfile FILE"
    return (
        f"To make what is missing or deleted again: {snakemake} {paths} {config} (the configuration of this run)\n"
        f"Then, for what follows from it if it is not the same as before: {snakemake} {config}"
    )


def require_passed(table: pl.DataFrame) -> None:
    """Raise AuditError with every failed check, if there is one."""
    failed = failed_checks(table)
    if failed:
        raise AuditError("\n".join([f"{counted(len(failed), 'check')} failed:", *failed]))


def render_page(table: pl.DataFrame) -> str:
    """The page of an audit: verdict, failed checks, checks by kind, every artifact with its digests.

    Args:
        table: of the schema "audit", as `audit_run` returns it.
    """
    failed = failed_checks(table)
    return render(
        "audit.html.j2",
        failed=failed,
        checks=table["passed"].sum() + len(failed),
        kinds=kinds_of(table).rows(named=True),
        artifacts=table.rows(named=True),
    )
