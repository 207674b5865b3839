r"""Score lists of answers: SQL by running it on a database, mathematics by value.

It prints the verdict and the reward of each answer:

    sql   correct        1.0
    sql   wrong          0.0
    sql   runtime_error  0.0
    sql   refused        0.0
    sql   no_answer      0.0
    math  correct        1.0
    math  correct        1.0
    math  wrong          0.0
    math  no_answer      0.0
"""

import sqlite3
import tempfile
from pathlib import Path

from dphrl.scoring import MathScorer, SqlScorer

QUERIES = [
    "SELECT name FROM singer WHERE age > 30 ORDER BY age",
    "SELECT name FROM singer",
    "SELECT name FROM nobody",
    "DROP TABLE singer",
]
NO_QUERY = "I would ask the singers."
GOLD_SQL = {"db_id": "concert", "gold_sql": "SELECT name FROM singer WHERE age >= 31 ORDER BY age"}
MATHS = [r"So it is \boxed{0.5}.", r"\boxed{\frac{2}{4}}", r"\boxed{2}", "Half of it."]
GOLD_MATHS = {"answer": "1/2"}


def write_database(folder: Path) -> None:
    """Databases are found as in Spider and BIRD: <folder>/<db_id>/<db_id>.sqlite."""
    (folder / "concert").mkdir()
    with sqlite3.connect(folder / "concert" / "concert.sqlite") as database:
        database.execute("CREATE TABLE singer (name TEXT, age INTEGER)")
        database.executemany("INSERT INTO singer VALUES (?, ?)", [("Ada", 30), ("Ben", 41), ("Cleo", 35)])


if __name__ == "__main__":
    responses = [*(f"```sql\n{query}\n```" for query in QUERIES), NO_QUERY]
    with tempfile.TemporaryDirectory() as folder:
        write_database(Path(folder))
        with SqlScorer(folder, comparison="spider") as scorer:
            for verdict in scorer.score(responses, [GOLD_SQL] * len(responses)):
                print(f"sql   {verdict.verdict:<13}  {verdict.reward:.1f}")
    with MathScorer() as scorer:
        for verdict in scorer.score(MATHS, [GOLD_MATHS] * len(MATHS)):
            print(f"math  {verdict.verdict:<13}  {verdict.reward:.1f}")
