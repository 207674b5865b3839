"""Tables as text: which columns hold words, and the cells of each file."""

import csv
from pathlib import Path

from dphrl.report.text_tables import Table, latex, markdown_table, of_words, write_texts

TABLE = Table("Title", "Caption", ["Policy", "Pass@8"], [[("Base", ""), ("90.1", "[88.0, 92.0]")], ["a|b_c", "-"]])


def test_a_column_with_a_letter_holds_words():
    rows = [["Base", ("90.1", "[88.0, 92.0]"), "-", "12"], ["GRPO", "> 16", "2 empty", "+3 ± 1"]]
    assert of_words(rows) == [True, False, True, False]


def test_the_files_hold_the_same_cells(tmp_path: Path):
    write_texts(tmp_path / "table", TABLE)
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["Policy", "Pass@8"], ["Base", "90.1 [88.0, 92.0]"], ["a|b_c", "-"]]
    text = (tmp_path / "table.tex").read_text()
    assert r"Base & 90.1 [88.0, 92.0] \\" in text
    assert r"\caption{Title. Caption}" in text


def test_markdown_escapes_names_and_is_padded():
    lines = markdown_table(TABLE).splitlines()
    assert lines[-1].startswith("| a\\|b\\_c ")
    assert len({len(line) for line in lines}) == 1


def test_latex_escapes_what_it_would_read():
    text = latex([["a_b", "50 %"], [r"\input{x} $1$ #&~^", "1 ± 2\n3"]], "50 % <of>")
    assert r"a\_b & 50 \% \\" in text
    assert r"\textbackslash{}input\{x\} \$1\$ \#\&\textasciitilde{}\textasciicircum{} & 1 $\pm$ 2 3 \\" in text
    assert r"\caption{50 \% \textless{}of\textgreater{}}" in text
    assert r"\begin{tabular}{lr}" in text
