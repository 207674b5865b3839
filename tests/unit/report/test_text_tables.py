"""Tables as text: which columns hold words, and the cells of each file."""

import csv
from pathlib import Path

from dphrl.report.text_tables import Table, markdown_table, of_words, write_texts

TABLE = Table("Title", "Caption", ["Policy", "Pass@8"], [[("Base", ""), ("90.1", "[88.0, 92.0]")], ["a|b_c", "-"]])


def test_a_column_with_a_letter_holds_words():
    rows = [["Base", ("90.1", "[88.0, 92.0]"), "-", "12"], ["GRPO", "> 16", "2 empty", "+3 ± 1"]]
    assert of_words(rows) == [True, False, True, False]


def test_the_files_hold_the_same_cells(tmp_path: Path):
    write_texts(tmp_path / "table", TABLE)
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["Policy", "Pass@8"], ["Base", "90.1 [88.0, 92.0]"], ["a|b_c", "-"]]
    lines = [line.split() for line in (tmp_path / "table.tex").read_text().splitlines()]
    assert [r"\toprule"] in lines
    assert ["Base", "&", "90.1", "[88.0,", "92.0]", r"\\"] in lines
    assert ["a|b\\_c", "&", "-", r"\\"] in lines


def test_markdown_escapes_names_and_is_padded():
    lines = markdown_table(TABLE).splitlines()
    assert lines[-1].startswith("| a\\|b\\_c ")
    assert len({len(line) for line in lines}) == 1
