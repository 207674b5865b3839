"""Find words that CONTRIBUTING.md asks to avoid: `python dev/words.py [FILE ...]`; without files, all that git tracks.

The table under "Words" there is the list. In a phrase `*` is any word; a space also matches a line break, a comment
sign or an underscore, so names in code are searched too.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "CONTRIBUTING.md"
SUFFIXES = {".md", ".py", ".smk", ".yaml", ".yml", ".j2", ".css", ".js"}
# A table of the toy's databases has a column of this name.
ALLOWED = {("workflow_scripts/dphrl/toy/databases.py", "house")}


def phrases(page: str) -> list[tuple[re.Pattern[str], str]]:
    """Each phrase of the table as a pattern, with what to write instead."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page.split("\n## Words\n")[1].split("\n## ")[0], re.MULTILINE)
    found = []
    for avoid, write in rows[1:]:
        for phrase in re.findall(r'"([^"]+)"', avoid):
            words = (r"[\w'`-]+" if word == "*" else re.escape(word) for word in phrase.split())
            text = r"[\s_#>]+".join(words)
            found.append((re.compile(rf"(?<![A-Za-z]){text}(?![A-Za-z])", re.IGNORECASE), write))
    return found


def check(path: Path, words: list[tuple[re.Pattern[str], str]]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    if path == LIST:  # the table names the words
        text = re.sub(r'^\| ".*$', "", text, flags=re.MULTILINE)
    return [
        f'{name}:{text.count(chr(10), 0, match.start()) + 1}: "{" ".join(match[0].split())}": {write}'
        for pattern, write in words
        for match in pattern.finditer(text)
        if (name, match[0].lower()) not in ALLOWED
    ]


def main(names: list[str]) -> int:
    names = names or subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    paths = [(ROOT / name).resolve() for name in names if Path(name).suffix in SUFFIXES or name == "Snakefile"]
    words = phrases(LIST.read_text(encoding="utf-8"))
    lines = [line for path in paths if path.is_file() and path != Path(__file__) for line in check(path, words)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
