"""Doubts about a comparison of two files, and the questions where coverage is lost."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.data.sample_files import SampleFile
from dphrl.diagnose.joined import UNANSWERED, Joined, known_as
from dphrl.evaluation.diagnosis import LOSSES, NARROWED, NOT_COLLAPSED, Diagnosis, Unanswered, diagnosis_k
from dphrl.evaluation.doubts import neighbours_agree
from dphrl.evaluation.estimator import g_pass_at_k, maj_at_k, pass_hat_k
from dphrl.evaluation.names import BASE
from dphrl.evaluation.study import Policy, Study
from dphrl.text import percent, visible

QUALIFIES = 0.05
"""A difference of the shares of truncated or empty answers above it qualifies the diagnosis."""
TAUS = {"1/8": 0.125, "1/4": 0.25, "1/2": 0.5}
"""Shares of the samples that must be right, for Cover@tau (G-Pass@k, arXiv 2510.08325)."""
OF_BASE = ("none", "1", "2", "up to 1/4", "up to 1/2", "more")
"""Numbers of right samples under the base."""
# Sampling settings: at a lower value a model seems narrower.
_SAMPLING = ("temperature", "top_p")
_SHOWN = 3
# Characters of a response without an answer.
_END = 80
_SUBSETS = 8


def answers(joined: Joined) -> pl.DataFrame:
    """For each policy: questions, samples, and the shares of right, truncated, empty and repeated answers.

    `truncated` is null where the file does not say. `repeated` is the share of samples that repeat the text of an
    earlier sample of the same question. `repeated` and `empty` are null in a file without texts.
    """
    rows = [
        samples.select(
            method=pl.lit(name),
            questions=pl.col("prompt_id").n_unique(),
            samples=pl.len(),
            fewest=pl.col("prompt_id").rle().struct.field("len").min(),
            most=pl.col("prompt_id").rle().struct.field("len").max(),
            right=pl.col("correct").mean(),
            truncated=pl.col("truncated").cast(pl.Float64).mean(),
            empty=(~pl.col("text").str.contains(r"\S")).mean(),
            # A struct of both would be the peak of memory.
            repeated=1.0 - (pl.col("prompt_id").hash(1) ^ pl.col("text").hash()).n_unique() / pl.len(),
        )
        for name, samples in joined.rows.items()
    ]
    texts = pl.when(pl.col("empty") < 1.0)
    return pl.concat(rows).with_columns(texts.then(name).alias(name) for name in ("repeated", "empty"))


def unanswered(joined: Joined, own: Sequence[str]) -> Unanswered | None:
    """The shares of samples without an answer, if they differ by more than `QUALIFIES`; None where they are not known.

    Args:
        own: the policies of the model.
    """
    if not all(UNANSWERED in joined.rows[name].columns for name in (BASE, *own)):
        return None
    base, *tuned = (float(joined.rows[name][UNANSWERED].mean()) for name in (BASE, *own))  # type: ignore[arg-type]
    mine = float(np.mean(tuned))
    if abs(mine - base) <= QUALIFIES:
        return None
    larger = own[int(np.argmax(tuned))] if mine > base else BASE
    text = joined.rows[larger].filter(UNANSWERED)["text"][0]
    return Unanswered(base, mine, visible(text[-_END:].strip(), ""))


def qualifications(shares: pl.DataFrame, diagnosis: Diagnosis, own: Sequence[str], extracted: bool) -> list[str]:
    """Notes on shares of truncated or empty answers that may explain a diagnosis.

    A share above the base may look like a loss of diversity. A share below the base may hide a loss.

    Args:
        shares: the table of `answers`.
        own: the policies of the model.
        extracted: the texts are extracted answers, so an empty one is a response without an answer.
    """
    base = shares.row(by_predicate=pl.col("method") == BASE, named=True)
    sentences = []
    for share, are in (("truncated", "are truncated"), ("empty", "have no answer" if extracted else "are empty")):
        mine = shares.filter(pl.col("method").is_in(own))[share].mean()
        if not isinstance(mine, float) or base[share] is None:
            continue
        more = mine - base[share]
        if more > QUALIFIES and diagnosis.word not in (NOT_COLLAPSED, NARROWED):
            effect = "the difference may come from that and not from a loss of diversity"
        elif more < -QUALIFIES and diagnosis.word not in LOSSES:
            effect = "that may hide a loss of diversity"
        else:
            continue
        sentences.append(
            f"{percent(mine)} % of the responses of {diagnosis.policy} {are}, {percent(base[share])} % of the"
            f" base's: {effect}."
        )
    return sentences


def unequal_settings(files: Mapping[str, SampleFile]) -> list[str]:
    """A sentence on each setting of sampling that the files name and that is not the same in all of them."""
    notes = []
    for key in dict.fromkeys(key for file in files.values() for key in file.settings if key != "model"):
        named = {name: file.settings[key] for name, file in files.items() if key in file.settings}
        if len(set(named.values())) > 1:
            values = ", ".join(f"{value} ({name})" for name, value in named.items())
            effect = " and a colder model seems narrower" if key in _SAMPLING else ""
            notes.append(f"The files differ in {key}: {values}. Coverage compares at equal settings only{effect}.")
    return notes


def dependent(policies: Mapping[str, Policy]) -> list[str]:
    """A sentence on each file whose samples of a question are no independent draws, by how neighbours agree."""
    sentences = []
    for name, policy in policies.items():
        agree = neighbours_agree(policy)
        if agree is not None:
            sentences.append(
                f"Neighbouring samples of {name} agree in {percent(agree[0])} % of cases, any two of a question in"
                f" {percent(agree[1])} %: they share a beginning, or the file is sorted. Samples that are no"
                " independent draws make intervals too narrow."
            )
    return sentences


def copies(shares: pl.DataFrame, name: str, own: Sequence[str]) -> list[str]:
    """A note where the shares of repeated texts of the base and of a model differ; `own` names its files."""
    base = shares.row(by_predicate=pl.col("method") == BASE, named=True)["repeated"]
    mine = shares.filter(pl.col("method").is_in(own))["repeated"].mean()
    if base is None or not isinstance(mine, float) or abs(mine - base) <= QUALIFIES:
        return []
    return [
        f"{percent(mine)} % of the responses of {name} repeat an earlier one to the same question, {percent(base)} %"
        " of the base's."
    ]


def left_out(joined: Joined) -> list[str]:
    """A note on each file with questions that are not in all files."""
    return [
        f"{name}: {len(questions):,} questions are not in every file and left out: {_listed(questions)}"
        for name, questions in joined.left_out.items()
        if questions
    ]


def limits(
    counted: Sequence[Policy], sizes: NDArray[np.int64], k: int, joined: Joined, names: Sequence[str]
) -> list[str]:
    """Notes on the questions that have fewer than k samples, and on the file that limits K.

    Args:
        counted: the base, then the trainings of a model.
        sizes: (questions,), the smaller number of samples.
        names: of the policies.
    """
    notes = []
    each = [diagnosis_k(policy.sizes) for policy in counted]
    if k == min(each) < max(each):
        medians = [float(np.median(policy.sizes)) for policy in counted]
        name, fewest = names[int(np.argmin(each))], medians[int(np.argmin(each))]
        notes.append(f"{name} limits K: its questions have {fewest:g} samples (median), others {max(medians):g}.")
    few = sizes < k
    if few.any():
        texts = joined.questions.select("prompt_id", "question").filter(pl.Series(few))
        labels = [known_as(*row) for row in texts.iter_rows()]
        notes.append(
            f"{len(labels):,} questions have fewer than {k} samples in a file and are left out: {_listed(labels)}"
        )
    return notes


def on_guesses(diagnosis: Diagnosis) -> list[str]:
    """The caution on guesses, where answers have no classes that show them."""
    if diagnosis.guesses is not None or diagnosis.k == 1:
        return []
    return [
        "pass@k counts a lucky guess as a solution. These answers have no classes that would show guesses, so where"
        " answers can be guessed, part of the difference may be one of guesses."
    ]


def cover(study: Study, k: int) -> pl.DataFrame:
    """Cover@tau, maj@k and pass^k: means over questions.

    Cover@tau counts 2 k samples of each question, or the fewest samples of any question if these are fewer.

    Returns:
        method, seed, metric, value. maj@k needs classes of answers and an equal number of samples per question.
    """
    answered = bool(study.datasets_with("answers"))
    rows: list[tuple[object, ...]] = []
    for policy in study.policies:
        most = min(2 * k, policy.n)
        n, c, place = policy.counts
        for label, tau in TAUS.items():
            shares = np.empty(len(n))
            for size in np.unique(n).tolist():
                shares[n == size] = g_pass_at_k(size, c[n == size], most, tau)
            rows.append((policy.key.method, policy.key.seed, f"Cover@{label}", float(shares[place].mean())))
        rows.append((policy.key.method, policy.key.seed, f"pass^{k}", float(policy.pass_at([k], pass_hat_k).mean())))
        if answered and policy.n == policy.sizes.max():
            voted = maj_at_k(policy.codes("answers"), policy.samples, k, study.seed, _SUBSETS)
            rows.append((policy.key.method, policy.key.seed, f"maj@{k}", float(voted.mean())))
    schema = {"method": pl.String(), "seed": pl.Int32(), "metric": pl.String(), "value": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def by_base(base: Policy, tuned: Sequence[Policy], k: int) -> pl.DataFrame:
    """pass@k of both models by the base's number of right samples (`OF_BASE`): where a loss lies.

    A question with few right samples of the base may have been lucky, so an equal model solves some of them less often.
    """
    c, rate = base.rows["c"].to_numpy(), base.solve_rates
    place = np.select([c == 0, c == 1, c == 2, rate <= 0.25, rate <= 0.5], range(5), 5)
    solved, after = base.pass_at([k])[:, 0], np.mean([policy.pass_at([k])[:, 0] for policy in tuned], axis=0)
    rows = [
        (tuned[0].key.method, OF_BASE[group], int(here.sum()), k, float(solved[here].mean()), float(after[here].mean()))
        for group in range(len(OF_BASE))
        if (here := place == group).any()
    ]
    columns = {"method": pl.String(), "right": pl.String(), "questions": pl.Int32(), "k": pl.Int32()}
    return pl.DataFrame(rows, schema=columns | dict.fromkeys(("base", "tuned"), pl.Float64()), orient="row")


def _listed(questions: Sequence[str]) -> str:
    named = ", ".join(_short(question) for question in questions[:_SHOWN])
    return f"{named}, ..." if len(questions) > _SHOWN else named


def _short(text: str) -> str:
    """A question for a list of them: an id as it is, a text in quotes."""
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return repr(short) if " " in short else short
