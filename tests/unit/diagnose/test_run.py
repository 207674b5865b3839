"""The command: exit codes, what it prints and writes, and what it refuses."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from written_samples import lines

from dphrl.cli import main
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e"


def write(path, answers, **fields):
    """A plain file: by question, the verdicts of its samples as "+" and "-"."""
    rows = [
        {"question_id": key, "question": f"Question {key}", "text": f"{mark} {i % 3}", "correct": mark == "+"} | fields
        for key, marks in answers.items()
        for i, mark in enumerate(marks)
    ]
    return str(lines(path, *rows))


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
def test_the_exit_code_is_the_diagnosis(files, capsys, chosen, margin, code, word):
    assert main(["diagnose", *(files[one] for one in chosen), "--margin", margin]) == code
    assert re.search(rf"^{word}: [a-z0-9 ]+\.\npass@2 of ", capsys.readouterr().out)


def test_the_terminal_has_the_numbers_and_the_questions_that_were_lost_are_in_the_json(files, tmp_path, capsys):
    assert main(["diagnose", *files, "--json", str(tmp_path / "d.json"), "--html", str(tmp_path / "d.html")]) == 3
    out = capsys.readouterr().out
    # pass@2: 5/6 of 40 questions, and 20 of 80: differences of 1/6, -5/6 and 0, sd 0.393, t(79) 1.990.
    assert "pass@2 of worse is 25.0 %, of the base 41.7 %: -16.7 points, 95 % interval [-25.4, -7.9]" in out
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert (found["version"], found["exit_code"], found["models"]["worse"]["k"]) == (4, 3, 2)
    assert [found["models"][name]["diagnosis"] for name in ("worse", "same")] == ["COLLAPSED", "NOT COLLAPSED"]
    assert [one["prompt_id"] for one in found["models"]["worse"]["lost"]] == sorted(f"q{n}" for n in range(20, 40))
    assert {row["method"] for row in found["tables"]["by_base"]} == {"worse", "same"}
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    for text in ("worse: COLLAPSED", "same: NOT COLLAPSED", "Question q20"):
        assert text in page


def verdicts(path, keys, ways):
    """A shard of verdicts: for each question a greedy response, and a right sample of each of these programs."""
    rows = [
        {"prompt_id": key, "sample_index": index, "verdict": "correct" if way else "no_answer", "correct": bool(way)}
        | {"extracted": f"SELECT {way} AS answer" if way else None, "answer_class": "a" if way else None}
        | {"program_class": f"p{way}" if way else None, "reward": float(bool(way)), "detail": None, "reads_table": None}
        for key in keys
        for index, way in enumerate((0, *ways), start=-1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(SCHEMAS["verdicts"].frame(rows), "verdicts", path, {})


def test_the_policies_of_a_run_are_diagnosed_from_its_verdicts(tmp_path, monkeypatch, capsys):
    """80 questions in two shards; both policies solve all of them, GRPO with one program of two."""
    folders = {name: Path("results/demo/verdicts", name, "in_domain.evaluate") for name in ("base", "grpo-s1/step40")}
    monkeypatch.chdir(tmp_path)
    for name, folder in folders.items():
        for shard in range(2):
            keys = [f"q{n:02}" for n in range(40 * shard, 40 * shard + 40)]
            verdicts(folder / f"{shard}.parquet", keys, (1, 2 if name == "base" else 1, 0))
    assert main(["diagnose", *map(str, folders.values()), "--json", "all.json"]) == 0
    out = capsys.readouterr().out
    assert "pass@2 of grpo-s1/step40 is 100.0 %, of the base 100.0 %" in out
    assert "- base: 80 rows are left out: greedy responses" in out
    found = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert [file["format"] for file in found["files"].values()] == ["dphrl", "dphrl"]
    varieties = found["models"]["grpo-s1/step40"]["varieties"]
    assert {one["kind"]: one["difference"]["tuned"] for one in varieties} == {"programs": 1, "answers": 1}
    # The questions of a run are grouped by their databases, which its golds name.
    truths = [json.dumps({"db_id": f"db{n % 8}", "gold_sql": "SELECT 1"}) for n in range(80)]
    Path("results/demo/gold").mkdir()
    golds = pl.DataFrame({"prompt_id": [f"q{n:02}" for n in range(80)], "ground_truth": truths})
    golds.write_parquet("results/demo/gold/in_domain.parquet")
    assert main(["diagnose", *map(str, folders.values())]) == 4
    assert "over 80 questions in 8 groups" in capsys.readouterr().out
    assert main(["diagnose", str(folders["base"].parent), str(folders["base"])]) == 2
    assert "it has none; name what to read in it: in_domain.evaluate" in capsys.readouterr().err


def test_equal_files_give_equal_bytes(files, tmp_path):
    for name in "ab":
        main(["diagnose", *files, "--json", str(tmp_path / f"{name}.json"), "--html", str(tmp_path / f"{name}.html")])
    for kind in ("json", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


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
    assert "<img src=x" not in page
    # The page's own two scripts and the figure's data.
    assert page.count("<script") == 3
    assert "\x1b" not in page
    json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))


def test_hotter_files_and_trainings(tmp_path, capsys):
    """A base that is right half of the time, a cold model that solves half of the questions, and hotter files."""
    half = {f"q{n:03}": "+-+-+-+-" for n in range(200)}
    cold = {key: "++++++++" if n < 100 else "--------" for n, key in enumerate(half)}
    base, tuned, warm, hot = (
        write(tmp_path / f"{name}.jsonl", marks)
        for name, marks in (("base", half), ("tuned", cold), ("T13", cold), ("T16", half))
    )
    assert main(["diagnose", base, tuned]) == 3
    assert "Next: draw tuned hotter and add the files with --hotter" in capsys.readouterr().out
    assert main(["diagnose", base, tuned, "--hotter", warm, hot, "--json", str(tmp_path / "d.json")]) == 0
    assert "SHARPENED: drawing hotter recovers the lost coverage.\npass@4 of tuned" in capsys.readouterr().out
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["models"]["tuned"]
    assert (found["diagnosis"], found["hotter"]["chosen"]) == ("SHARPENED", ["T16", "T16"])
    assert main(["diagnose", base, tuned, "--hotter", warm]) == 3
    capsys.readouterr()
    assert main(["diagnose", base, "--trainings", f"grpo={tuned},{warm},{tuned}"]) == 3
    out = capsys.readouterr().out
    assert "over 200 questions and 3 trainings (" in out
    assert "grpo (2)" in out


def test_usage_errors(files, tmp_path, capsys):
    for arguments, said in (
        ([files[0]], "required: TUNED"),
        ([*files, "--hotter", files[1]], "name one TUNED, and no --trainings"),
        ([files[0], "--trainings", f"a={files[1]}", "--trainings", f"a={files[2]}"], "name each model once"),
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
    assert "missing.jsonl: does not exist" in capsys.readouterr().err
    other = write(tmp_path / "other.jsonl", {"z": "+"}, question="Another one")
    assert main(["diagnose", files[0], other]) == 2
    assert "no question in common" in capsys.readouterr().err


def test_answers_are_judged_here(tmp_path, capsys):
    """Golds in a file; answers without verdicts, one to a question."""
    paths = []
    for name, right in (("base", 60), ("tuned", 20)):
        answers = (n + 1 if n < right else 0 for n in range(70))
        rows = ({"question_id": str(n), "text": f"so \\boxed{{{answer}}}"} for n, answer in enumerate(answers))
        paths.append(str(lines(tmp_path / f"{name}.jsonl", *rows)))
    golds = lines(tmp_path / "golds.jsonl", *({"id": n, "answer": n + 1} for n in range(70)))
    assert main(["diagnose", *paths, "--task", "math", "--gold", str(golds)]) == 4
    assert "pass@1 of tuned is 28.6 %, of the base 85.7 %" in capsys.readouterr().out
    assert main(["diagnose", *paths, "--task", "math"]) == 2
    assert "has no gold answer; the file has none: give them with --gold FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [
        {"input": "2 + 2?", "output": "It is 4.", "gts": "4", "score": -1.0},
        {"prompt": "2 + 2?", "responses": ["It is 4.", "5"], "score": [0.9, 0.2], "gold": "4"},
    ],
)
def test_verdicts_of_files_that_are_judged_here_are_not_read(row, tmp_path, capsys):
    path = str(lines(tmp_path / "samples.jsonl", row))
    assert main(["diagnose", path, path, "--task", "math"]) == 4
    assert "of the base 100.0 %" in capsys.readouterr().out


def test_all_golds_of_a_list_are_required(tmp_path, capsys):
    paths = []
    for name, answer in (("base", "2, 1"), ("tuned", "2")):
        rows = ({"question": f"q{n}", "text": f"\\boxed{{{answer}}}", "gold": [1, "2"]} for n in range(70))
        paths.append(str(lines(tmp_path / f"{name}.jsonl", *rows)))
    assert main(["diagnose", *paths, "--task", "math"]) == 4
    assert "pass@1 of tuned is 0.0 %, of the base 100.0 %" in capsys.readouterr().out


def test_sql_is_judged_here_and_programs_are_the_variety(tmp_path):
    database = tmp_path / "databases/shop/shop.sqlite"
    database.parent.mkdir(parents=True)
    with sqlite3.connect(database) as connection:
        connection.executescript("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('a'), ('b');")
    ways = ["SELECT count(*) FROM item", "SELECT count(name) FROM item", "SELECT 3"]
    paths = []
    for name, drawn in (("base", (0, 1, 2)), ("tuned", (0, 0, 2))):
        rows = ({"question_id": f"q{n}", "text": f"```sql\n{ways[way]}\n```"} for n in range(30) for way in drawn)
        paths.append(str(lines(tmp_path / f"{name}.jsonl", *rows)))
    gold = {"gold_sql": "SELECT count(*) FROM item", "db_id": "shop"}
    golds = lines(tmp_path / "golds.jsonl", *({"question_id": f"q{n}"} | gold for n in range(30)))
    options = ["--task", "sql", "--databases", str(tmp_path / "databases"), "--gold", str(golds)]
    assert main(["diagnose", *paths, *options, "--json", str(tmp_path / "d.json")]) == 4
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["models"]["tuned"]
    assert (found["coverage"]["base"], found["coverage"]["tuned"]) == (1, 1)
    programs = found["varieties"][0]
    assert (programs["kind"], programs["m"]) == ("programs", 2)
    assert (programs["difference"]["base"], programs["difference"]["tuned"]) == (2, 1)
    assert found["more_questions"] == 59


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


def test_answers_that_the_scorer_finds_less_often_are_no_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"base": "The answer is 6.", "tags": "<think>5</think>\n<answer>6</answer>", "open": "<think>6"}
    paths = {name: tmp_path / f"{name}.jsonl" for name in texts}
    for name, path in paths.items():
        rows = [
            {"question": f"Q{question}?", "gold": "6", "text": texts[name] if sample % 2 else "It is 7."}
            for question in range(40)
            for sample in range(8)
        ]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    main(["diagnose", *map(str, (paths["base"], paths["tags"])), "--task", "math"])
    assert "pass@4 of tags is 98.6 %, of the base 98.6 %" in capsys.readouterr().out
    assert main(["diagnose", *map(str, (paths["base"], paths["open"])), "--task", "math"]) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "CANNOT TELL" in said
    assert "no answer is found in 50.0 % of the samples of open and in 0.0 % of the base's" in said
    assert "<think>6" in said


@pytest.mark.parametrize(("none", "word"), [(5, "too many answers are not found"), (4, "no loss of 5 points")])
def test_nothing_is_told_where_most_answers_of_both_are_not_found(none, word, tmp_path, capsys):
    rows = (
        {"question": f"Q{n}?", "gold": "6", "text": "No idea." if sample < none else "It is 6."}
        for n in range(80)
        for sample in range(8)
    )
    path = str(lines(tmp_path / "a.jsonl", *rows))
    main(["diagnose", path, path, "--task", "math"])
    said = capsys.readouterr().out
    assert word in said.splitlines()[0]
    assert ("no answer is found in 62.5 % of the samples of a and in 62.5 % of the base's" in said) == (none > 4)
