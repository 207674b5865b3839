"""The files of a run, each compared with its seal, its manifest and SHA256SUMS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import sha256_file, visible_files
from dphrl.store.kinds import KINDS, kind_of, manifest_above
from dphrl.store.manifest import SUMS, read_manifest, read_sums
from dphrl.store.parquet import read_footer
from dphrl.store.stage import other_version
from dphrl.text import visible

# With SHA256SUMS the audit of a run leaves its timings.
AUDITED: Final = "timings/audit.parquet"
# Of people who follow a run.
_LEFT_OUT = ("logs", "tracking")
# In these folders only rules write. People may keep texts and pictures among the tables.
_OURS = {kind.path.split("/")[0] for kind in KINDS.values()} - {"tables"}
_MAKE, _MOVE = "name it as a target of snakemake", "move it out of the folder of the run"
# The end of a reader's error.
_DELETE = "; delete it and run snakemake again"


@dataclass
class Run:
    """A run and the faults that its audit has found.

    Attributes:
        root: the folder of the run.
        listed: the files that a finished run must have, by path, each with its sha256 if that is known ("" if not);
            None: any that are there.
        footers: of each table and manifest that is as it was written, by path.
        faults: the texts of faults, by path.
        targets: artifacts that snakemake is to make again.
        hashes: the sha256 of each file that was read.
    """

    root: Path
    listed: Mapping[str, str] | None = None
    footers: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[str, None] = field(default_factory=dict)
    hashes: dict[Path, str] = field(default_factory=dict)

    @cached_property
    def present(self) -> frozenset[str]:
        """The files of the run, without hidden ones and those that jobs write for people."""
        paths = (file.relative_to(self.root) for file in visible_files(self.root))
        return frozenset(path.as_posix() for path in paths if path.parts[0] not in _LEFT_OUT)

    def fault(self, path: str, problem: str, remedy: str, *targets: str) -> None:
        """Record a fault. Names, footers and rows are texts of others: they reach a terminal as visible symbols."""
        self.faults.setdefault(path, []).append(visible(f"{path}: {problem}; {remedy}", keep=""))
        self.targets |= dict.fromkeys(targets)

    def damaged(self, path: str, problem: str) -> None:
        """Record a fault of a file that is to be made again, in a folder with the rest of the folder."""
        artifact = manifest_above(path) or path
        named = "it" if artifact == path else artifact
        self.fault(path, problem, f"delete {named} and run snakemake again", artifact)

    def is_about(self, path: str) -> bool:
        """Whether the audit is about a file: of a finished run, one that is listed."""
        return self.listed is None or path in self.listed

    def hash(self, path: str) -> str:
        """The sha256 of a file, which is read once."""
        file = self.root / path
        if file not in self.hashes:
            self.hashes[file] = sha256_file(file)
        return self.hashes[file]

    def footer(self, path: str) -> dict[str, Any] | None:
        """The footer of a table or manifest that is as it was written; None for another file or a damaged one."""
        kind = kind_of(path)
        unread = path in self.present and path not in self.faults and path not in self.footers
        if kind is None or not unread or kind.schema not in {*SCHEMAS, "manifest"}:
            return self.footers.get(path)
        file = self.root / path
        try:
            is_manifest = kind.schema == "manifest"
            footer = read_manifest(file) if is_manifest else read_footer(file, kind.schema, verify=self.is_about(path))
            if footer.get("path") != path:
                raise ValueError(f"was written as {footer.get('path')}")
            self.footers[path] = footer
        except (OSError, ValueError, RecursionError) as error:
            self.damaged(path, str(error).removeprefix(f"{file}: ").removesuffix(_DELETE))
        return self.footers.get(path)


def open_run(root: Path, files: Iterable[Path] | None = None) -> Run:
    """The run in a folder.

    Args:
        files: the files that it must have; None: those of SHA256SUMS, or without it any.

    Raises:
        ValueError: there is no run, or one of another version of this project.
    """
    if not root.is_dir():
        raise ValueError(f"{root}: no such folder; name the folder of a run, e.g. results/demo")
    if version := other_version(root):
        raise ValueError(f"{root}: a run of version {version}, which only that version reads: git checkout v{version}")
    run = Run(root)
    if not any(map(kind_of, run.present)):
        raise ValueError(f"{root}: no artifact of this workflow in it; name the folder of a run, e.g. results/demo")
    if files is not None:
        run.listed = dict.fromkeys((file.relative_to(root).as_posix() for file in files), "")
    elif SUMS in run.present:
        try:
            run.listed = read_sums(root)
        except ValueError as error:
            run.damaged(SUMS, str(error))
    elif AUDITED in run.present:
        run.fault(SUMS, "missing, but the audit of this run wrote it", _MAKE, SUMS)
    return run


def check_files(run: Run) -> None:
    """Name each damaged, missing and foreign file; keep the footers of the others."""
    # The sha256 of files in the folders of manifests and next to tables, and the footer that lists it.
    written = {}
    for artifact in sorted(run.present):
        folder = artifact.removesuffix(".json") if artifact.endswith(".json") else artifact.rpartition("/")[0]
        for name, entry in ((run.footer(artifact) or {}).get("files") or {}).items():
            written[f"{folder}/{name}"] = (entry["sha256"], artifact)
    sums = run.listed or {}
    for path in sorted({*run.present, *written, *sums} - {*run.faults}):
        sha256, artifact = written.get(path, ("", SUMS))
        is_checked = path in written and run.is_about(artifact)
        if path not in run.present:
            if is_checked:
                run.damaged(path, f"missing, but {artifact} lists it")
            elif path in sums:
                run.fault(path, f"missing, but {SUMS} lists it", _MAKE, manifest_above(path) or path)
        elif is_checked and run.hash(path) != sha256:
            run.damaged(path, f"not the file that {artifact} lists")
        elif sums.get(path) and run.hash(path) != sums[path]:
            run.damaged(path, f"not the file that {SUMS} lists ({sums[path][:12]} then, {run.hash(path)[:12]} now)")
            run.footers.pop(path, None)
        elif path not in written:
            _check_known(run, path)


def _check_known(run: Run, path: str) -> None:
    """A file that no footer lists is an artifact, or in a folder where people may keep it."""
    manifest, is_ours = manifest_above(path), path.split("/")[0] in _OURS or path.endswith(".parquet")
    if manifest is not None:
        if run.footer(manifest):  # a loader takes every *.safetensors of a folder
            run.fault(path, f"not listed in {manifest}", _MOVE)
        elif manifest not in run.present and manifest not in run.faults and run.is_about(manifest):
            run.fault(manifest, "missing, only its folder is left", _MAKE, manifest)
    elif is_ours and kind_of(path) is None and path not in (run.listed or {}):
        run.fault(path, "no rule of this workflow writes it", _MOVE)
