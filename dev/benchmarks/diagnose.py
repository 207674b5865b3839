"""Diagnoses by `dphrl diagnose` of simulated models, part by part: python dev/benchmarks/diagnose.py --part equal

A cell is a kind of questions and models; each draw is a pair of files with 8, 16, 32 or 64 samples of each question, in
turn, and the diagnosis at the default K. Numbers are per cent of draws. Cells do not depend on each other: `--part` and
`--cell` (a piece of its name) run some of them.

equal        two draws of one model, with answers of several kinds: every loss and NARROWED is false
notations    two draws of one model; the base writes its answers in three notations: NARROWED is false
small        a true loss of 2.2 points: a loss is no finding
margin       a true loss of exactly the margin: NOT COLLAPSED is false
power        a true loss of 5, 7.8 and 10 points
files        equal models; wrong samples of the base that count as right, questions under two ids, samples twice:
             a loss is false
groups       equal models on 11 databases or on pairs of paraphrases: a loss is false; also without the groups
guesses      equal ability, the tuned model guesses one answer where the base guesses many; and a true loss
chosen       equal models on questions that these samples chose; honest files, where the alarm is false
checkpoints  20 equal models: exit status 3 is false; with a loss of the margin NOT COLLAPSED of the best is false
words        narrowed, proportional, both, harder on hard questions: the share of each word
hotter       a loss of the margin at every temperature, or a tenth of the questions that is lost there while others are
             gained: SHARPENED is false; a loss that one temperature recovers
refusals     a true loss of 5 and 10 points: the share that has a diagnosis before any refusal and after each
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.diagnose.measures import guessed
from dphrl.evaluation.chosen import look_chosen
from dphrl.evaluation.diagnosis import (
    CHOSEN,
    EXIT,
    GUESSES,
    LOSSES,
    Diagnosis,
    decide,
    diagnosis_k,
    hotter,
    together,
)
from dphrl.evaluation.per_prompt import skeleton
from dphrl.evaluation.study import Policy, PolicyKey
from dphrl.evaluation.variety import varied

Floats = NDArray[np.float64]
Random = np.random.Generator
SHAPES: dict[str, Callable[[Random, int], Floats]] = {
    "uniform": lambda random, number: random.random(number),
    "U-shaped": lambda random, number: random.beta(0.3, 0.3, number),
    "hard": lambda random, number: random.beta(0.3, 3.0, number),
    "easy": lambda random, number: random.beta(3.0, 0.3, number),
    "none, some, all": lambda random, number: random.choice([0.0, 0.1, 1.0], number),
}
MIXED = {"easy": (2.0, 0.6), "mixed": (0.5, 0.6), "hard": (0.4, 2.0)}
SAMPLES, MARGIN, WAYS = (8, 16, 32, 64), 0.05, 5
NUMBERS = (130, 300, 1000)


class Cell(NamedTuple):
    """A part, a kind of questions or models, how many questions, and the true loss of pass@K."""

    part: str
    kind: str
    questions: int
    loss: float = 0.0

    @property
    def name(self) -> str:
        """For `--cell` and the tables."""
        return f"{self.kind} {self.questions} {100 * self.loss:g}"


def policy(right: NDArray[np.bool_], ways: NDArray[np.integer] | None = None, groups: Sequence[int] = ()) -> Policy:
    """A policy of (questions, n) verdicts, with classes of answers and groups of questions where there are some."""
    number, n = right.shape
    rows = pl.DataFrame({"prompt_id": np.arange(number), "n": np.full(number, n), "c": right.sum(axis=1)})
    if ways is not None:
        lists = {"correct": pl.Series(right).arr.to_list(), "skeletons": pl.Series(ways).arr.to_list()}
        rows = rows.with_columns(**lists)
    if len(groups):
        rows = rows.with_columns(cluster=pl.Series(groups).cast(pl.String))
    return Policy(PolicyKey("tuned", 0, 0, "d"), rows)


def draw(random: Random, rates: Floats, n: int) -> NDArray[np.bool_]:
    """(questions, n) verdicts."""
    return random.random((len(rates), n)) < rates[:, None]


@cache
def _mean_pass(kind: str, k: int) -> float:
    return float((1.0 - (1.0 - rates(kind, np.random.default_rng(0), 400_000)) ** k).mean())


def rates(kind: str, random: Random, number: int) -> Floats:
    """Solve rates of a kind of questions."""
    return SHAPES[kind](random, number) if kind in SHAPES else random.beta(*MIXED[kind], number)


def lowered(before: Floats, kind: str, loss: float, k: int, some: bool, random: Random) -> Floats:
    """Rates whose pass@k is lower by `loss` in the mean: some questions never solved, or all by one factor."""
    share = loss / _mean_pass(kind, k)
    if some:
        return np.where(random.random(len(before)) < share, 0.0, before)
    return np.asarray(1.0 - (1.0 - (1.0 - share) * (1.0 - (1.0 - before) ** k)) ** (1.0 / k))


def diagnosis(base: Policy, tuned: Policy, **doubts: object) -> Diagnosis:
    """At the default K."""
    return decide(base, [tuned], diagnosis_k(np.minimum(base.sizes, tuned.sizes)), MARGIN, **doubts)  # type: ignore[arg-type]


def by_guesses(answers: Sequence[NDArray[np.integer]], gold: NDArray[np.integer], k: int) -> object:
    """What guesses reach under base and tuned model, from (questions, n) answers of each and (questions, 1) golds."""
    number, n = answers[0].shape
    frames = {}
    for name, drawn in zip(("base", "tuned"), answers, strict=True):
        classes = pl.Series(drawn.ravel()).cast(pl.String)
        columns = {"prompt_id": np.repeat(np.arange(number), n), "correct": (drawn == gold).ravel()}
        frames[name] = pl.DataFrame(columns).with_columns(answer_class=classes)
    return guessed(frames["base"], [frames["tuned"]], k)


def looks_chosen(*models: Policy) -> bool:
    """Whether the counts of a model look like questions that its samples chose."""
    return any(look_chosen(model.sizes, model.rows["c"].to_numpy()) for model in models)


def equal(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    before = rates(cell.kind, random, cell.questions)
    chances = random.dirichlet(np.ones(WAYS), cell.questions).cumsum(axis=1)
    pair = []
    for _ in range(2):
        ways = (random.random((cell.questions, n, 1)) > chances[:, None, :-1]).sum(axis=2)
        pair.append(policy(draw(random, before, n), ways))
    yield diagnosis(*pair, variety=varied(pair[0], pair[1:], "skeletons")).word


def notations(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Every solution is one sum; the base writes the half in three notations, the tuned model in one."""
    before, pair = rates("mixed", random, cell.questions), []
    for written in (("\\frac{1}{2}", "0.5", "1/2"), ("1/2",)):
        texts = [f"4 + 3 = 7, so \\boxed{{{answer}}}" for answer in written]
        classes = pl.Series(texts).to_frame("text").select(skeleton(pl.col("text")).rank("dense")).to_series()
        ways = classes.to_numpy().astype(np.int64)[random.integers(0, len(written), (cell.questions, n))] - 1
        pair.append(policy(draw(random, before, n), ways))
    yield diagnosis(*pair, variety=varied(pair[0], pair[1:], "skeletons")).word


def lower(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    before = rates(cell.kind, random, cell.questions)
    after = lowered(before, cell.kind, cell.loss, diagnosis_k(np.array([n])), some, random)
    base, tuned = policy(draw(random, before, n)), policy(draw(random, after, n))
    yield diagnosis(base, tuned).word


def files(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Faults of files, of mixed kind."""
    fault, _, percent = cell.kind.partition(": ")
    number = cell.questions // 2 if fault == "two ids" else cell.questions
    before = rates("mixed", random, number)
    base, tuned = draw(random, before, n), draw(random, before, n)
    if fault == "wrong samples that count":
        base |= random.random(base.shape) < float(percent) / 100.0
    if fault == "two ids":
        base, tuned = np.tile(base, (2, 1)), np.tile(tuned, (2, 1))
    if fault == "samples twice":
        tuned = np.hstack([tuned[:, : n // 2]] * 2)
        base = np.hstack([base[:, : n // 2]] * 2) if percent == "both" else base
    judged = diagnosis(policy(base), policy(tuned))
    yield judged.word
    if judged.word in LOSSES and not judged.tips:
        yield "a loss without a doubt"


def groups(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Each model is better on some groups by chance: as a training is, which other groups would show otherwise."""
    databases = cell.kind == "11 databases"
    unit = random.integers(0, 11, cell.questions) if databases else np.arange(cell.questions) // 2
    logit = random.normal(0.0, 1.5, unit.max() + 1)[unit] + (
        random.normal(0.0, 1.0, cell.questions) if databases else 0
    )
    pair = []
    for _ in range(2):
        shifted = logit + random.normal(0.0, 0.5, unit.max() + 1)[unit]
        pair.append(draw(random, 1.0 / (1.0 + np.exp(-shifted)), n))
    yield diagnosis(*(policy(right, groups=unit.tolist()) for right in pair)).word
    yield f"without groups: {diagnosis(*map(policy, pair)).word}"


def guesses(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Ability decides a share of answers; the rest are guesses: many of the base, one of the tuned model."""
    number = cell.questions
    options = {"4 options": 4, "integers": 60, "wide numbers": 10**9, "wide numbers, a true loss": 10**9}[cell.kind]
    able, gold = random.beta(0.5, 0.8, number), random.integers(0, options, (number, 1))
    answers = []
    for model in range(2):
        ability = np.where(random.random(number) < 0.15, 0.0, able) if model and "loss" in cell.kind else able
        wild = random.integers(0, options, (number, n)) if not model else random.integers(0, options, (number, 1))
        answers.append(np.where(draw(random, ability, n), gold, wild))
    pair = [policy(drawn == gold) for drawn in answers]
    judged = diagnosis(*pair, guesses=by_guesses(answers, gold, diagnosis_k(np.array([n]))))
    yield judged.word
    yield from (f"reason: {reason}" for reason in judged.reasons)
    yield f"without the baseline: {diagnosis(*pair).word}"


def chosen(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Questions that the base's samples solve (kind "solved"), solve in part ("in part"), or all ("honest")."""
    shape, _, filtered = cell.kind.partition(": ")
    before = rates(shape, random, 20 * cell.questions)
    first = draw(random, before, n)
    c = first.sum(axis=1)
    keep = {"solved": c > 0, "in part": (c > 0) & (c < n), "honest": c >= 0}[filtered]
    place = np.flatnonzero(keep)[: cell.questions]
    base, tuned = policy(first[place]), policy(draw(random, before[place], n))
    alarm = looks_chosen(base, tuned)
    yield diagnosis(base, tuned, chosen=alarm).word
    yield "alarm" if alarm else "no alarm"
    yield f"without the test: {diagnosis(base, tuned).word}"


def checkpoints(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """20 models with one loss: the exit status of all, and the word of the best by pass@K."""
    before, k = rates(cell.kind, random, cell.questions), diagnosis_k(np.array([n]))
    base = policy(draw(random, before, n))
    after = (lowered(before, cell.kind, cell.loss, k, some, random) for _ in range(20))
    diagnoses = [diagnosis(base, policy(draw(random, rates_after, n))) for rates_after in after]
    yield f"exit {together(diagnoses)[1]}"
    yield f"best: {max(diagnoses, key=lambda each: each.coverage.value).word}"
    if any(EXIT[each.word] == EXIT["COLLAPSED"] for each in diagnoses):
        yield "some diagnosis is a loss"


def refusals(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """A true loss; wrong answers are guesses among few or many, of the tuned model many or one for each question.

    No guess hits the right answer of its own question, so the loss is exact.
    """
    options, number = 60 if "60" in cell.kind else 10**9, cell.questions
    before = rates("mixed", random, number)
    after = lowered(before, "mixed", cell.loss, diagnosis_k(np.array([n])), some, random)
    gold = random.integers(0, options, (number, 1))
    k, answers = diagnosis_k(np.array([n])), []
    for model, right in enumerate((draw(random, before, n), draw(random, after, n))):
        guesses_here = 1 if model and "one guess" in cell.kind else n
        wild = (gold + random.integers(1, options, (number, guesses_here))) % options
        answers.append(np.where(right, gold, wild))
    pair = [policy(drawn == gold) for drawn in answers]
    judged = diagnosis(*pair, chosen=looks_chosen(*pair), guesses=by_guesses(answers, gold, k))
    kept = {
        "1 no refusal": True,
        "2 chosen questions": CHOSEN not in judged.reasons,
        "3 guesses": GUESSES not in judged.reasons,
        "4 both": judged.word in LOSSES,
    }
    yield from (name for name, holds in kept.items() if judged.coverage.fell and holds)


def words(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    """Rates of the mixed kind, changed in four ways; each changes pass@K by 5 to 15 points."""
    before = rates("mixed", random, cell.questions)
    sharp = before**2 / (before**2 + (1.0 - before) ** 2)
    after = {
        "narrowed": sharp,
        "proportional": 0.6 * before,
        "both": 0.75 * sharp,
        "harder on hard": before * np.minimum(1.0, 0.3 + before),
    }[cell.kind]
    yield diagnosis(policy(draw(random, before, n)), policy(draw(random, after, n))).word


def hot(cell: Cell, random: Random, n: int, some: bool) -> Iterator[str]:
    before, k = rates("mixed", random, cell.questions), diagnosis_k(np.array([n]))
    sharp = lowered(before, "mixed", 0.25, k, True, random)
    # Accuracy is not lost: the questions that remain are solved more often.
    sharp = np.where(sharp > 0, np.minimum(1.0, 1.5 * sharp + 0.2), 0.0)
    loss = 0.0 if cell.kind == "recovered" else MARGIN
    drawn = {f"T{t}": lowered(before, "mixed", loss, k, t == 1, random) for t in range(3)}
    if cell.kind == "a tenth lost":
        lost = random.random(cell.questions) < 0.1
        drawn = dict.fromkeys(drawn, np.where(lost, 0.0, np.maximum(before, 0.3)))
        sharp = np.where(lost, 0.0, sharp)
    files = {name: [policy(draw(random, rates_there, n))] for name, rates_there in drawn.items()}
    base = policy(draw(random, before, n))
    yield hotter(diagnosis(base, policy(draw(random, sharp, n))), base, files, int(random.integers(2**31))).word


PARTS: dict[str, tuple[Callable[[Cell, Random, int, bool], Iterator[str]], list[Cell]]] = {
    "equal": (equal, [Cell("equal", kind, q) for kind in (*SHAPES, "mixed") for q in (50, *NUMBERS)]),
    "notations": (notations, [Cell("notations", "three notations", q) for q in NUMBERS]),
    "small": (lower, [Cell("small", kind, q, 0.022) for kind in MIXED for q in NUMBERS]),
    "files": (
        files,
        [
            Cell("files", kind, q)
            for kind in (
                "wrong samples that count: 0.5",
                "wrong samples that count: 1",
                "two ids",
                "samples twice: both",
                "samples twice: tuned",
            )
            for q in NUMBERS
        ],
    ),
    "margin": (lower, [Cell("margin", kind, q, MARGIN) for kind in MIXED for q in NUMBERS]),
    "power": (lower, [Cell("power", kind, q, loss) for kind in SHAPES for q in NUMBERS for loss in (0.05, 0.078, 0.1)]),
    "groups": (groups, [Cell("groups", kind, q) for kind in ("11 databases", "paraphrases") for q in (130, 300, 600)]),
    "guesses": (
        guesses,
        [
            Cell("guesses", kind, q)
            for kind in ("4 options", "integers", "wide numbers", "wide numbers, a true loss")
            for q in NUMBERS
        ],
    ),
    "chosen": (
        chosen,
        [
            Cell("chosen", f"{kind}: {filtered}", q)
            for kind in (*SHAPES, "mixed")
            for filtered in ("honest", "solved", "in part")
            for q in (30, 100, 300, 1000)
        ],
    ),
    "checkpoints": (
        checkpoints,
        [Cell("checkpoints", kind, q, loss) for kind in MIXED for q in (130, 300) for loss in (0.0, MARGIN)],
    ),
    "words": (
        words,
        [Cell("words", kind, q) for kind in ("narrowed", "proportional", "both", "harder on hard") for q in NUMBERS],
    ),
    "hotter": (
        hot,
        [Cell("hotter", kind, q) for kind in ("every temperature", "a tenth lost", "recovered") for q in NUMBERS],
    ),
    "refusals": (
        refusals,
        [
            Cell("refusals", kind, q, loss)
            for kind in ("60 answers", "60 answers, one guess", "many answers, one guess")
            for q in NUMBERS
            for loss in (0.05, 0.1)
        ],
    ),
}


def shares(cell: Cell, draws: int) -> dict[str, float]:
    """Per cent of the draws with each outcome; every draw has its own generator."""
    part, cells = PARTS[cell.part]
    counts: Counter[str] = Counter()
    for number in range(draws):
        random = np.random.default_rng([list(PARTS).index(cell.part), cells.index(cell), number])
        n, some = SAMPLES[number % len(SAMPLES)], number % (2 * len(SAMPLES)) < len(SAMPLES)
        counts.update(part(cell, random, n, some))
    return {outcome: 100.0 * count / draws for outcome, count in sorted(counts.items())}


def print_table(part: str, outcomes_of: dict[Cell, dict[str, float]], draws: int) -> None:
    """A Markdown table of a part."""
    outcomes = sorted({outcome for shares in outcomes_of.values() for outcome in shares})
    print("|", " | ".join([part, "questions", "loss", "draws", *outcomes]), "|")
    print("|", " | ".join(["---"] + ["---:"] * (len(outcomes) + 3)), "|")
    for cell, shares in outcomes_of.items():
        cells = [f"{shares.get(outcome, 0.0):.1f}" for outcome in outcomes]
        print("|", " | ".join([cell.kind, str(cell.questions), str(cell.loss), str(draws), *cells]), "|")
    print(flush=True)


def main() -> None:
    """Run cells and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cell", default="", help="a piece of the names of cells")
    parser.add_argument("--draws", type=int, default=1000, help="of each cell (default: 1000)")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        for part in options.part:
            cells = [cell for cell in PARTS[part][1] if options.cell in cell.name]
            counted = pool.map(partial(shares, draws=options.draws), cells)
            print_table(part, dict(zip(cells, counted, strict=True)), options.draws)


if __name__ == "__main__":
    main()
