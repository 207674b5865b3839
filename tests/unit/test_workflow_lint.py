"""`snakemake --lint` finds nothing but what pyproject.toml allows under [tool.dphrl]."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FINDING = re.compile(r"^(?:Lints for (?P<where>.+?):?|    \* (?P<title>.+?):?)$", re.MULTILINE)


def test_snakemake_lint_finds_only_what_is_allowed() -> None:
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["dphrl"]["allowed_lints"]
    command = [sys.executable, "-m", "snakemake", "--lint", "--cores", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    where, found, others = "", 0, []
    for match in FINDING.finditer(text):
        if match["where"]:
            where = match["where"]
            continue
        found += 1
        if match["title"] not in allowed:
            others.append(f"{where}: {match['title']}")
    assert done.returncode == 0 or found, f"snakemake --lint could not read the workflow:\n{text}"
    assert not others, "\n".join(others)
