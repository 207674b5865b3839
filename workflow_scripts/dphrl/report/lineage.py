"""The steps that made a file, from its footer back to the data, as text."""

from __future__ import annotations

import json
from pathlib import Path

from dphrl.machine.progress import counted
from dphrl.report.audit_between import digest_of, is_outside, span
from dphrl.report.audit_files import Run
from dphrl.report.figures import figure, figures
from dphrl.report.show import check_is_file
from dphrl.store.kinds import manifest_above
from dphrl.store.manifest import folder_of, read_manifest
from dphrl.store.parquet import read_footer
from dphrl.text import visible


def lineage(file: Path, depth: int) -> str:
    """The steps from the data to a file, the last step first, as text.

    Args:
        file: any artifact of a run, or a file that belongs to one (weights of a model, a figure, a table as CSV).
        depth: how many steps to go back from the file; those further back are only counted.

    Raises:
        OSError: as `check_is_file`.
        ValueError: no footer shows how it was made.
    """
    check_is_file(file)
    root, maker = _maker(file.absolute())
    # Breadth first: each artifact once, with its distance from the file.
    run, steps, pending, seen = Run(root), list[tuple[int, str]](), [(0, maker)], {maker}
    while pending:
        away, artifact = pending.pop(0)
        text, inputs = _step(run, artifact)
        steps.append((away, text))
        pending += [(away + 1, source) for source in inputs if source not in seen]
        seen |= {*inputs}
    path = file.absolute().relative_to(root).as_posix()
    head = [] if maker == path else [visible(f"{path} belongs to {maker}", keep="")]
    shown = [text for away, text in steps if away <= depth]
    left = len(steps) - len(shown)
    tail = [f"{counted(left, 'artifact')} further back: --depth {steps[-1][0]} shows all."] if left else []
    return "\n\n".join([*head, *shown, *tail])


def _maker(file: Path) -> tuple[Path, str]:
    """The folder of the run, and the path of the table or manifest whose footer is about a file.

    Raises:
        ValueError: there is none.
    """
    places = [file, file.with_name("index.parquet"), file.with_suffix(".parquet")]
    if file.parent.name == "figures" and file.stem in figures():
        places.append(file.parents[1] / f"tables/{figure(file.stem).table}.parquet")
    for place in [*places, *(folder.with_name(f"{folder.name}.json") for folder in file.parents[:-1])]:
        is_table = place.suffix == ".parquet"
        if place.is_file() and (is_table or (place.suffix == ".json" and folder_of(place).is_dir())):
            footer = read_footer(place, verify=False) if is_table else read_manifest(place)
            path = str(footer.get("path"))
            if place.as_posix().endswith(f"/{path}"):
                return place.parents[path.count("/")], path
    raise ValueError(
        f"{file}: no footer shows how it was made; name a table, e.g. tables/headline.parquet, or a manifest"
    )


def _step(run: Run, path: str) -> tuple[str, list[str]]:
    """A step as text, and the artifacts of the run that it read."""
    footer = run.footer(path) or {}
    inputs: list[str] = []
    sources = []
    for name, source in sorted(footer.get("inputs", {}).items()):
        where = span(source["paths"])
        if is_outside(name, source["paths"]):
            where += ", outside of the run"
        elif digest_of(run, source["paths"]) != source["digest"]:
            where += ": CHANGED since, or not there any more"
        else:
            inputs += dict.fromkeys(manifest_above(file) or file for file in source["paths"])
        sources.append(("from", f"{name}: {where} ({source['digest'][:12]})"))
    libraries = sorted(footer.get("libraries", {}).items())
    facts = [
        ("DAMAGED", "; ".join(run.faults.get(path, []))),
        ("stage", footer.get("stage")),
        ("made by", footer.get("made_by")),
        ("code", str(footer.get("code", ""))[:12]),
        ("config", json.dumps(footer.get("config", {}), sort_keys=True, ensure_ascii=False)),
        ("seed", footer.get("seed")),
        ("libraries", ", ".join(f"{name} {version}" for name, version in libraries)),
        *sources,
    ]
    digest = digest_of(run, [path])
    head = f"{path}  (digest {digest[:12]})" if digest else path
    lines = [head, *(f"  {name:<10} {fact}" for name, fact in facts if fact not in (None, "", "{}"))]
    return "\n".join(visible(line, keep="") for line in lines), inputs
