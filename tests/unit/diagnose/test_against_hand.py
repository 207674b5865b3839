"""Diagnoses against numbers computed by hand, and false ones in a short simulation."""

import numpy as np
import pytest
from made_samples import sample_file

from dphrl.diagnose.comparison import diagnose
from dphrl.evaluation.paired import paired_difference


def of_pairs(both, lost, gained, neither, margin=0.05):
    """The diagnosis on questions with two equal samples in each file, so many solved by both, by the base only, ..."""
    pairs = ["++"] * both + ["+-"] * lost + ["-+"] * gained + ["--"] * neither
    files = [sample_file(name, {f"q{n}": [pair[i]] * 2 for n, pair in enumerate(pairs)}) for i, name in enumerate("bt")]
    return diagnose(files, margin=margin).models["t"].diagnosis


def test_a_loss_of_ten_in_a_hundred():
    """Mean -0.1, variance 0.1 - 0.01, standard error sqrt(0.09 / 99) = 0.03015, t(99) 1.9842."""
    diagnosis = of_pairs(90, 10, 0, 0)
    assert diagnosis.word == "COLLAPSED"
    assert diagnosis.coverage.wide == pytest.approx((-0.1598, -0.0402), abs=1e-4)
    assert (diagnosis.coverage.base, diagnosis.coverage.tuned) == (1.0, 0.9)
    # theta = 0.9: a base that is right so often on every question solves 1 - 0.1^2 of them.
    assert diagnosis.explained == pytest.approx(-0.01)
    assert diagnosis.rest.value == pytest.approx(-0.09)


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        # 1000 questions, 20 or 60 lost: 90 % intervals of half width 0.7 and 1.2 points around -2 and -6.
        ((980, 20, 0, 0), "NOT COLLAPSED"),
        ((940, 60, 0, 0), "COLLAPSED"),
        # As many gained as lost: 90 % interval of half width 1.66 sqrt(0.1 / 99) = 5.3 and 1.65 sqrt(0.05 / 199) = 2.6.
        ((45, 5, 5, 45), "CANNOT TELL"),
        ((95, 5, 5, 95), "NOT COLLAPSED"),
        # Nothing differs: 58 questions hide a loss of 5 points with probability 0.95^58 = 5.1 %, 59 with 4.8 %.
        ((29, 0, 0, 29), "CANNOT TELL"),
        ((30, 0, 0, 29), "NOT COLLAPSED"),
        # A gain does not show that nothing was lost.
        ((20, 0, 2, 0), "CANNOT TELL"),
    ],
)
def test_words(counts, word):
    assert of_pairs(*counts).word == word


def test_nothing_that_varies_has_a_width():
    """1 - 0.025^(1/10) = 30.85 %."""
    found = paired_difference(np.zeros(10), np.zeros(10))
    assert found.wide == pytest.approx((-0.3085, 0.3085), abs=1e-4)
    assert paired_difference(np.zeros(10), np.zeros(10), shares=False).wide == (0.0, 0.0)


@pytest.mark.parametrize(("questions", "word"), [(1, "CANNOT TELL"), (5, "CANNOT TELL"), (6, "WORSE")])
def test_few_questions_that_are_all_lost(questions, word):
    """As the sign test: 2 of 2^5 sequences of gains and losses are of one kind (6.3 %), 2 of 2^6 (3.1 %)."""
    assert of_pairs(0, questions, 0, 0).word == word


def test_what_would_tell_does_tell():
    """45 of 100 solved by both, 5 + 5 by one: the standard error 0.0318 must fall to 0.05 / (1.98 + 0.84) = 0.0177."""
    diagnosis = of_pairs(45, 5, 5, 45)
    assert diagnosis.more_questions == pytest.approx(100 * (0.0318 / 0.0177) ** 2, rel=0.03)
    times = diagnosis.more_questions // 10 + 1
    assert of_pairs(times * 4, times, times, times * 4).word == "NOT COLLAPSED"
    assert of_pairs(10, 0, 0, 10).more_questions == 59


def test_more_samples_help_where_questions_are_the_same():
    """All questions are right half of the time. More samples shrink the error, as the questions are alike."""
    random = np.random.default_rng(1)
    answers = [{f"q{n}": list(random.choice(["+", "-"], 4)) for n in range(60)} for _ in "bt"]
    found = diagnose([sample_file(name, one) for name, one in zip("bt", answers, strict=True)])
    diagnosis = found.models["t"].diagnosis
    assert (diagnosis.word, diagnosis.k) == ("CANNOT TELL", 2)
    assert diagnosis.more_samples in (8, 16, 32)


def test_false_diagnoses_are_rare():
    """Short form of dev/benchmarks/diagnose.py: 300 pairs of 60 questions; binomial bounds at 1 in 1,000."""
    random = np.random.default_rng(1)
    rates = random.beta(0.3, 0.6, (300, 60))
    draws = [random.binomial(8, rates) for _ in range(2)]
    null = [paired_difference((b > 0) * 1.0, (t > 0) * 1.0) for b, t in zip(*draws, strict=True)]
    assert sum(one.wide[1] < 0 for one in null) <= 20
    lower = random.binomial(8, rates * (random.random(rates.shape) > 0.1 / (1 - (1 - rates) ** 8).mean()))
    truly = [paired_difference((b > 0) * 1.0, (t > 0) * 1.0) for b, t in zip(draws[0], lower, strict=True)]
    excluded = [one.wide[1] >= 0 and one.narrow[0] > -0.05 for one in truly]
    assert sum(excluded) <= 28
