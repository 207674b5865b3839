"""The command: exit codes, what it prints and writes, and what it refuses."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.tables import write_table
from dphrl.cli import main

DATA = Path(os.environ.get("DPHRL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
PREDICTIONS = DATA / "text2sql" / "spider" / "predictions"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e"


def write(path, answers, **fields):
    """A plain file: by question, the verdicts of its samples as "+" and "-"."""
    rows = [
        {"question_id": key, "question": f"Question {key}", "text": f"{mark} {i % 3}", "correct": mark == "+"} | fields
        for key, marks in answers.items()
        for i, mark in enumerate(marks)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    """A base that solves 40 questions of 80, a model that solves 20 of them, and one that solves as many others."""
    base = {f"q{n}": "++--" if n < 40 else "----" for n in range(80)}
    return [
        write(tmp_path / "base.jsonl", base),
        write(tmp_path / "worse.jsonl", {key: "++++" if n < 20 else "----" for n, key in enumerate(base)}),
        write(tmp_path / "same.jsonl", base),
    ]


@pytest.mark.parametrize(
    ("chosen", "margin", "code", "word"),
    [((0, 1), "5", 3, "COLLAPSED"), ((0, 2), "5", 0, "NOT COLLAPSED"), ((0, 2), "1", 4, "CANNOT TELL")],
)
def test_the_exit_code_is_the_verdict(files, capsys, chosen, margin, code, word):
    assert main(["diagnose", *(files[one] for one in chosen), "--margin", margin]) == code
    assert re.search(rf"\n{word}: [a-z0-9 ]+\. pass@2 of ", capsys.readouterr().out)


def test_the_terminal_has_the_numbers_and_the_questions_that_were_lost_are_in_the_json(files, tmp_path, capsys):
    assert main(["diagnose", *files, "--json", str(tmp_path / "d.json"), "--html", str(tmp_path / "d.html")]) == 3
    out = capsys.readouterr().out
    # pass@2: 5/6 of 40 questions, and 20 of 80: differences of 1/6, -5/6 and 0, sd 0.393, t(79) 1.990.
    assert "pass@2 of worse is 25.0 %, of the base 41.7 %: -16.7 points, 95 % interval [-25.4, -7.9]" in out
    assert "pass@2 of same is 41.7 %" in out
    assert "pass@2 fell by 16.7 points; lower accuracy on every question alike would explain 0.0 of them" in out
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert (found["version"], found["exit_code"], found["models"]["worse"]["k"]) == (3, 3, 2)
    assert {"accuracy", "coverage", "explained", "variety"} <= set(found["models"]["worse"])
    assert [found["models"][name]["verdict"] for name in ("worse", "same")] == ["COLLAPSED", "NOT COLLAPSED"]
    assert [one["prompt_id"] for one in found["models"]["worse"]["lost"]] == sorted(f"q{n}" for n in range(20, 40))
    assert {"passk", "crossing", "keep_explore", "rarefied", "diversity_split", "transitions", "by_base"} <= set(
        found["tables"]
    )
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    for text in ("worse: COLLAPSED", "same: NOT COLLAPSED", "Lost questions", "Question q20"):
        assert text in page


def test_every_table_of_the_terminal_has_a_line_that_explains_its_heads(files, capsys):
    main(["diagnose", *files])
    tables = [
        part.splitlines() for part in capsys.readouterr().out.split("\n\n") if "\n-----" in part or "\n---" in part
    ]
    heads = [re.split(r"  +", table[1].strip()) for table in tables]
    assert [table[0] for table in tables] == [
        "The files",
        "Coverage: pass@k",
        "Shares of right samples",
        "What was kept, lost and gained",
        "Where a loss lies",
        "Variety among right answers",
    ]
    assert all(re.match(r"[A-Z].*\.$", table[-1]) for table in tables)
    assert heads[1][-2:] == ["falls below the base at k", "by guesses (base)"]
    assert heads[3][-1] == "net discovery (NDR)"
    assert "right answers (m)" in heads[5]


def verdicts(path, ways):
    """A shard of verdicts: for each question a greedy response, and a right sample of each of these programs."""
    rows = [
        {
            "prompt_id": key,
            "sample_index": index,
            "verdict": "correct" if way else "no_answer",
            "correct": bool(way),
            "reward": float(bool(way)),
            "extracted": f"SELECT {way} AS answer" if way else None,
            "answer_class": "a" if way else None,
            "program_class": f"p{way}" if way else None,
            "detail": None,
            "reads_table": True if way else None,
        }
        for key, programs in ways.items()
        for index, way in enumerate((0, *programs), start=-1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(SCHEMAS["verdicts"].frame(rows), "verdicts", path, {})


def test_the_policies_of_a_run_are_diagnosed_from_its_verdicts(tmp_path, monkeypatch, capsys):
    """80 questions in two shards; both policies solve all of them, GRPO with one program of two."""
    folders = {name: Path("results/demo/verdicts", name, "in_domain.evaluate") for name in ("base", "grpo-s1/step40")}
    monkeypatch.chdir(tmp_path)
    for name, folder in folders.items():
        for shard in range(2):
            keys = range(40 * shard, 40 * shard + 40)
            verdicts(folder / f"{shard}.parquet", {f"q{n:02}": (1, 2 if name == "base" else 1, 0) for n in keys})
    golds = [
        {"prompt_id": f"q{n:02}", "ground_truth": json.dumps({"db_id": f"db{n % 8}", "gold_sql": "SELECT 1"})}
        for n in range(80)
    ]
    Path("results/demo/gold").mkdir()
    pl.DataFrame(golds).write_parquet("results/demo/gold/in_domain.parquet")
    assert main(["diagnose", *map(str, folders.values()), "--json", "all.json", "--html", "all.html"]) == 4
    assert "over 80 questions in 8 groups" in capsys.readouterr().out
    Path("results/demo/gold/in_domain.parquet").unlink()
    assert main(["diagnose", *map(str, folders.values()), "--json", "all.json", "--html", "all.html"]) == 0
    out = capsys.readouterr().out
    assert "pass@2 of grpo-s1/step40 is 100.0 %, of the base 100.0 %" in out
    assert "Variety fell: grpo-s1/step40 has 1.00 different programs among 2 right answers" in out
    assert "- base: 80 greedy responses (sample_index -1) are left out" in out
    assert "- base: 80 of 240 responses have no extracted answer" in out
    assert "grpo-s1/step40 compared with base" in Path("all.html").read_text(encoding="utf-8")
    found = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert [file["format"] for file in found["files"].values()] == ["dphrl", "dphrl"]
    assert {one["kind"]: one["difference"]["tuned"] for one in found["models"]["grpo-s1/step40"]["varieties"]} == {
        "programs": 1,
        "answers": 1,
    }
    # One shard of each: fewer than 59 questions.
    assert main(["diagnose", *(str(folder / "0.parquet") for folder in folders.values())]) == 4
    assert "pass@2 of grpo-s1/step40 is 100.0 %" in capsys.readouterr().out
    assert main(["diagnose", str(folders["base"].parent), str(folders["base"])]) == 2
    assert "it has none; name one of its folders: in_domain.evaluate" in capsys.readouterr().err


def test_equal_files_give_equal_bytes(files, tmp_path):
    for name in "ab":
        main(["diagnose", *files, "--json", str(tmp_path / f"{name}.json"), "--html", str(tmp_path / f"{name}.html")])
    for kind in ("json", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_text_is_escaped_on_the_page_and_visible_in_the_terminal(tmp_path, capsys):
    base = {f"q{n}{HOSTILE}": "+-" for n in range(5)}
    paths = [
        write(tmp_path / f"{name}.jsonl", {key: marks for key in base}, text=HOSTILE, level=HOSTILE, gold=HOSTILE)
        for name, marks in (("base", "+-"), ("\x1b[31mred", "--"))
    ]
    main(["diagnose", *paths, "--html", str(tmp_path / "d.html"), "--json", str(tmp_path / "d.json")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(page)
    assert not [attrs for tag, attrs in tags.found if "onerror" in attrs]
    assert not [tag for tag, _ in tags.found if tag == "img"]
    # The page's own two scripts and the figure's data.
    assert len([tag for tag, _ in tags.found if tag == "script"]) == 3
    assert "\x1b" not in page
    json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))


def test_hotter_files_trainings_and_groups(tmp_path, capsys):
    """A base that is right half of the time, a cold model that solves half of the questions, and hotter files."""
    half = {f"q{n:03}": "+-+-+-+-" for n in range(200)}
    cold = {key: "++++++++" if n < 100 else "--------" for n, key in enumerate(half)}
    base, tuned, warm, hot = (
        write(tmp_path / f"{name}.jsonl", marks)
        for name, marks in (("base", half), ("tuned", cold), ("T13", cold), ("T16", half))
    )
    assert main(["diagnose", base, tuned]) == 3
    assert "Next step: draw tuned at higher temperatures and add the files with --hotter" in capsys.readouterr().out
    assert main(["diagnose", base, tuned, "--hotter", warm, hot, "--json", str(tmp_path / "d.json")]) == 0
    assert "\nSHARPENED: drawing hotter recovers the lost coverage. pass@4 of tuned" in capsys.readouterr().out
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["models"]["tuned"]
    assert (found["verdict"], found["hotter"]["chosen"]) == ("SHARPENED", ["T16", "T16"])
    assert main(["diagnose", base, tuned, "--hotter", warm]) == 3
    capsys.readouterr()
    assert main(["diagnose", base, "--trainings", f"grpo={tuned},{warm},{tuned}"]) == 3
    out = capsys.readouterr().out
    assert "over 200 questions and 3 trainings (" in out
    assert "grpo (2)" in out
    grouped = [
        write(tmp_path / f"{name}-grouped.jsonl", {key: marks for key in half}, topic="one")
        for name, marks in (("base", "+-+-"), ("tuned", "+-+-"))
    ]
    for path in map(Path, grouped):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = (json.dumps(row | {"topic": f"t{int(row['question_id'][1:]) % 20}"}) + "\n" for row in rows)
        path.write_text("".join(lines), encoding="utf-8")
    main(["diagnose", *grouped, "--cluster", "topic"])
    assert "over 200 questions in 20 groups" in capsys.readouterr().out


def test_usage_errors(files, tmp_path, capsys):
    for arguments, said in (
        ([files[0]], "required: TUNED"),
        ([*files, "--k", "8"], "largest possible k is 4"),
        ([*files, "--k", "0"], "expected 1 or more"),
        ([*files, "--margin", "0"], "expected points between 0 and 100"),
        ([*files, "--styles", "plain"], "expected NAME=VALUE"),
        ([*files, "--styles", "a=S", "--styles", "b=SE"], "can never match"),
        ([*files, "--hotter", files[1]], "name one TUNED, and no --trainings"),
        ([*files, "--trainings", "grpo"], "expected NAME=VALUE"),
        ([files[0], "--trainings", f"a={files[1]}", "--trainings", f"a={files[2]}"], "name each model once"),
        ([files[0], "--trainings", "a=,"], "name each model once, with all of its files"),
        ([*files, "--trainings", f"worse={files[2]}"], "worse.jsonl is shown as worse; take another name"),
        ([*files, "--gold", "x"], "add --task math"),
        ([*files, "--task", "sql"], "--databases DIR"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["diagnose", *arguments])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.html"))


def test_errors_in_files(files, tmp_path, capsys):
    assert main(["diagnose", files[0], str(tmp_path / "missing.jsonl")]) == 2
    assert "missing.jsonl" in capsys.readouterr().err
    other = write(tmp_path / "other.jsonl", {"z": "+"}, question="Another one")
    assert main(["diagnose", files[0], other]) == 2
    assert "no question in common" in capsys.readouterr().err


def test_answers_are_judged_here(tmp_path, capsys):
    """Golds in a file; answers without verdicts."""
    paths = []
    for name, right in (("base", 60), ("tuned", 20)):
        rows = [
            {
                "question_id": str(n),
                "question": f"{n} + 1?",
                "text": f"{n} + 1 = \\boxed{{{n + 1 if n < right else 0}}}",
            }
            for n in range(70)
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        paths.append(str(path))
    golds = tmp_path / "golds.jsonl"
    golds.write_text("".join(json.dumps({"id": n, "answer": n + 1}) + "\n" for n in range(70)), encoding="utf-8")
    assert main(["diagnose", *paths]) == 2
    assert "no sample is judged; judge them here with --task" in capsys.readouterr().err
    # One answer to a question: accuracy, no coverage.
    assert main(["diagnose", *paths, "--task", "math", "--gold", str(golds)]) == 4
    assert "pass@1 of tuned is 28.6 %, of the base 85.7 %" in capsys.readouterr().out
    # A list of golds in the files: all are required.
    listed = []
    for name, answer in (("base", "2, 1"), ("tuned", "2")):
        rows = ({"question": f"q{n}", "text": f"\\boxed{{{answer}}}", "gold": [1, "2"]} for n in range(70))
        listed.append(str(tmp_path / f"listed-{name}.jsonl"))
        Path(listed[-1]).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["diagnose", *listed, "--task", "math"]) == 4
    assert "pass@1 of listed-tuned is 0.0 %, of the base 100.0 %" in capsys.readouterr().out
    assert main(["diagnose", *paths, "--task", "math"]) == 2
    assert "has no gold answer; the file has none: give them with --gold FILE" in capsys.readouterr().err


def test_sql_is_judged_here_and_programs_are_the_variety(tmp_path, capsys):
    folder = tmp_path / "databases" / "shop"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE item (name TEXT, price INT)")
        connection.executemany("INSERT INTO item VALUES (?, ?)", [("a", 1), ("b", 2)])
    ways = ["SELECT count(*) FROM item", "SELECT count(name) FROM item", "SELECT 3"]
    paths = []
    for name, drawn in (("base", (0, 1, 2)), ("tuned", (0, 0, 2))):
        rows = [{"question_id": f"q{n}", "text": f"```sql\n{ways[way]}\n```"} for n in range(30) for way in drawn]
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    golds = tmp_path / "golds.jsonl"
    gold = {"gold_sql": "SELECT count(*) FROM item", "db_id": "shop"}
    golds.write_text("".join(json.dumps({"question_id": f"q{n}"} | gold) + "\n" for n in range(30)), encoding="utf-8")
    arguments = [*map(str, paths), "--task", "sql", "--databases", str(folder.parent)]
    assert main(["diagnose", *arguments, "--gold", str(golds), "--json", str(tmp_path / "d.json")]) == 4
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["models"]["tuned"]
    assert (found["coverage"]["base"], found["coverage"]["tuned"]) == (1, 1)
    first = found["varieties"][0]
    assert (first["kind"], first["m"], first["difference"]["base"], first["difference"]["tuned"]) == (
        "programs",
        2,
        2,
        1,
    )
    assert found["more_questions"] == 59
    assert main(["diagnose", *arguments]) == 2
    assert "has no gold answer" in capsys.readouterr().err


def test_a_missing_extra_is_named(files, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["diagnose", *files, "--task", "math"]) == 2
    assert "pip install 'dphrl[math]'" in capsys.readouterr().err


def test_nothing_heavy_is_imported(files):
    """Of a light install: no engine, no workflow, no parser of SQL or mathematics."""
    code = (
        "import sys; from dphrl.cli import main; main(['diagnose', *sys.argv[1:]]);"
        "heavy = {'torch', 'snakemake', 'sqlglot', 'math_verify', 'vllm', 'altair', 'scipy.stats'};"
        "print('HEAVY', heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *files[:2]], capture_output=True, text=True, check=True)
    assert "HEAVY set()" in done.stdout


@pytest.mark.skipif(not PREDICTIONS.is_dir(), reason=f"no predictions at {PREDICTIONS}: set DPHRL_TEST_DATA")
def test_three_spider_systems(tmp_path, capsys):
    """One answer to each of 608 questions: K is 1, so the verdict is about accuracy, and it says so."""
    paths = []
    for name in ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5"):
        rows = [json.loads(line) for line in (PREDICTIONS / f"{name}.jsonl").open(encoding="utf-8")]
        path = tmp_path / f"{name}.jsonl"
        path.write_text(
            "".join(
                json.dumps(
                    {
                        "question_id": row["dev_index"],
                        "question": f"{row['db_id']}: {row['question']}",
                        "text": row["pred_sql"],
                        "correct": bool(row["official_ex"]),
                    }
                )
                + "\n"
                for row in rows
            ),
            encoding="utf-8",
        )
        paths.append(str(path))
    code = main(["diagnose", *paths, "--json", str(tmp_path / "d.json")])
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    print(capsys.readouterr().out)
    assert code == found["exit_code"]
    assert code == 4
    assert all(one["k"] == 1 and one["reasons"][0] == "one sample" for one in found["models"].values())
    shares = [
        sum(json.loads(line)["official_ex"] for line in (PREDICTIONS / f"{name}.jsonl").open(encoding="utf-8")) / 608
        for name in ("dail_sql_gpt4", "dail_sql_gpt4_sc", "graphix_t5")
    ]
    models = found["models"].values()
    assert [next(iter(models))["coverage"]["base"], *(one["coverage"]["tuned"] for one in models)] == pytest.approx(
        shares
    )
