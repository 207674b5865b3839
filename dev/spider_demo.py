"""Make config/demo-llm/spider.tar.xz from the Spider release.

python dev/spider_demo.py data/spider

The folder has `train.json` and `dev.json` with `db_id`, `question` and `query` of each row, and
`database/<db_id>/<db_id>.sqlite`. config/demo-llm/README.md lists the content of the archive and the changes to Spider.
"""

import argparse
import hashlib
import io
import json
import lzma
import re
import sqlite3
import tarfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INSTRUCTION = "Answer with one SQLite query."
# A prompt then has at most about 170 tokens of SmolLM2, and the archive is well below 1 MB.
LONGEST_SCHEMA, LARGEST_FILE = 520, 200_000
TRAINING_QUESTIONS, UNSEEN_QUESTIONS, DEVELOPMENT_QUESTIONS = 400, 240, 80

Question = dict[str, Any]


def connect(path: Path) -> sqlite3.Connection:
    """Open a database read-only; its text stays bytes, because some of Spider's is not UTF-8."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    return connection


def compact_schema(connection: sqlite3.Connection) -> str:
    """Tables and columns as `table: column, column | table: column`, in the order of the file."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    ).fetchall()
    columns = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return " | ".join(
        f"{table.decode()}: {', '.join(name.decode() for (name,) in connection.execute(columns, (table.decode(),)))}"
        for (table,) in tables
    )


def gold_key(query: str) -> str:
    """Equal texts for spellings of one gold that differ in case, blanks, quotes and the last semicolon."""
    return re.sub(r"[\s;]", "", query.casefold().replace('"', "'"))


def has_rows(connection: sqlite3.Connection, query: str, tidy: str) -> bool:
    """Whether a gold runs, gives rows, and gives the same rows after its blanks are tidied."""
    try:
        rows = connection.execute(query).fetchall()
        return bool(rows) and rows == connection.execute(tidy).fetchall()
    except sqlite3.Error:
        return False


def questions_by_gold(rows: list[Question], databases: Path) -> tuple[list[list[Question]], list[Path]]:
    """Questions on small databases, grouped by (database, gold), and the files of these databases.

    The order of groups is a function of their database and gold alone. A prompt that occurs twice counts once; with two
    golds it is left out.
    """
    golds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        golds[row["db_id"], row["question"]].add(gold_key(row["query"]))
    groups: dict[tuple[str, str], dict[str, Question]] = defaultdict(dict)
    files = []
    for db_id in sorted({row["db_id"] for row in rows}):
        file = databases / db_id / f"{db_id}.sqlite"
        with closing(connect(file)) as connection:
            schema = compact_schema(connection)
            if len(schema) >= LONGEST_SCHEMA or file.stat().st_size >= LARGEST_FILE:
                continue
            files.append(file)
            for row in rows:
                question, query = row["question"], row["query"]
                tidy = " ".join(query.split()).rstrip("; ")
                if row["db_id"] != db_id or len(golds[db_id, question]) > 1 or not has_rows(connection, query, tidy):
                    continue
                user = f"{schema}\n{question}"
                messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": user}]
                made = {"db_id": db_id, "messages": messages, "query": tidy}
                groups[db_id, gold_key(query)].setdefault(question, made)

    def order(group: tuple[str, str]) -> str:
        return hashlib.sha256("\n".join(group).encode()).hexdigest()

    return [[*groups[group].values()] for group in sorted(groups, key=order)], files


def build(spider: Path) -> dict[str, bytes]:
    """The files of the archive by their name in it."""
    official = {name: json.loads((spider / f"{name}.json").read_text(encoding="utf-8")) for name in ("train", "dev")}
    train, train_files = questions_by_gold(official["train"], spider / "database")
    development, development_files = questions_by_gold(official["dev"], spider / "database")
    unseen_end = TRAINING_QUESTIONS + UNSEEN_QUESTIONS
    splits = {
        # Questions of one gold are alike, so intervals over questions need golds that differ.
        "train": [group[0] for group in train[:TRAINING_QUESTIONS]],
        "unseen": [group[0] for group in train[TRAINING_QUESTIONS:unseen_end]],
        "development": [group[0] for group in development[:DEVELOPMENT_QUESTIONS]],
        "supervised": [question for group in train[unseen_end:] for question in group],
    }
    files = {f"database/{file.parent.name}/{file.name}": file.read_bytes() for file in train_files + development_files}
    for name, questions in splits.items():
        lines = [json.dumps(question, ensure_ascii=False) + "\n" for question in questions]
        files[f"{name}.jsonl"] = "".join(lines).encode()
    return files


def pack(files: dict[str, bytes]) -> bytes:
    """An uncompressed tar file: equal files give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return stream.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spider", type=Path, help="folder of the release: train.json, dev.json, database/")
    parser.add_argument("--out", type=Path, default=ROOT / "config" / "demo-llm" / "spider.tar.xz")
    arguments = parser.parse_args()
    files = build(arguments.spider)
    packed = pack(files)
    arguments.out.write_bytes(lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME))
    for name in sorted(files):
        if name.endswith(".jsonl"):
            print(f"{name}: {len(files[name].splitlines())} questions")
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, tar {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    main()
