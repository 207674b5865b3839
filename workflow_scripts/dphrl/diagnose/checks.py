"""What makes a comparison of two files doubtful: unequal settings, truncated and empty answers, few samples."""

from collections.abc import Mapping, Sequence

import polars as pl

from dphrl.diagnose.joined import Joined, known_as
from dphrl.evaluation.names import BASE
from dphrl.evaluation.study import Study
from dphrl.evaluation.verdict import COLLAPSED, NOT_COLLAPSED, Verdict
from dphrl.pages.numbers import percent
from dphrl.sample_files.samples import SampleFile

QUALIFIES = 0.05
"""A difference of the shares of truncated or empty answers above it qualifies the verdict."""
_SHOWN = 3
_ACCURACY = (
    "K is 1, and pass@1 is accuracy, not coverage: a loss of diversity shows at larger k only. Draw more samples of"
    " each question."
)


def answers(joined: Joined) -> pl.DataFrame:
    """For each policy: questions, samples, and the shares of right, truncated, empty and repeated answers.

    `truncated` is null where the file does not say; `repeated` is the share of samples whose text an earlier sample of
    the same question has.
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
            empty=(pl.col("text").str.strip_chars() == "").mean(),
            repeated=1.0 - pl.struct("prompt_id", pl.col("text").hash()).n_unique() / pl.len(),
        )
        for name, samples in joined.rows.items()
    ]
    return pl.concat(rows)


def qualifications(shares: pl.DataFrame, verdict: Verdict, extracted: bool) -> list[str]:
    """What qualifies a verdict: K = 1, and shares of truncated or empty answers that may explain it.

    More such answers than the base may explain a loss, fewer may hide one.

    Args:
        shares: the table of `answers`.
        extracted: the texts are extracted answers, so an empty one is a response without an answer.
    """
    mine, base = (shares.row(by_predicate=pl.col("method") == name, named=True) for name in (verdict.policy, BASE))
    found = [_ACCURACY] if verdict.k == 1 else []
    for share, are in (("truncated", "are truncated"), ("empty", "have no answer" if extracted else "are empty")):
        if mine[share] is None or base[share] is None:
            continue
        more = mine[share] - base[share]
        if more > QUALIFIES and verdict.word != NOT_COLLAPSED:
            effect = "the difference may come from that and not from a loss of diversity"
        elif more < -QUALIFIES and verdict.word != COLLAPSED:
            effect = "that may hide a loss of diversity"
        else:
            continue
        found.append(
            f"{percent(mine[share])} % of the responses of {verdict.policy} {are}, {percent(base[share])} % of the"
            f" base's: {effect}."
        )
    return found


def unequal_settings(files: Mapping[str, SampleFile]) -> list[str]:
    """A note on each setting that the files name and that is not the same in all of them."""
    notes = []
    names = dict.fromkeys(key for file in files.values() for key in file.settings if key != "model")
    for key in names:
        given = {name: file.settings[key] for name, file in files.items() if key in file.settings}
        if len(set(given.values())) > 1:
            values = ", ".join(f"{value} ({name})" for name, value in given.items())
            notes.append(f"The files differ in {key}: {values}. Coverage compares at equal settings only.")
    return notes


def left_out(joined: Joined) -> list[str]:
    """A note on each file with questions that are not in all files."""
    return [
        f"{name}: {len(questions):,} questions are not in every file and left out:"
        f" {', '.join(_short(one) for one in questions[:_SHOWN])}{', ...' if len(questions) > _SHOWN else ''}"
        for name, questions in joined.left_out.items()
        if questions
    ]


def limits(study: Study, joined: Joined) -> list[str]:
    """A note where some questions have fewer samples than others: these limit K."""
    fewest = min(policy.n for policy in study.policies)
    if all((policy.sizes == fewest).all() for policy in study.policies):
        return []
    short = {key for one in study.policies for key in one.rows.filter(pl.col("n") == fewest)["prompt_id"]}
    texts = dict(joined.questions.select("prompt_id", "question").iter_rows())
    shown = ", ".join(_short(known_as(one, texts[one])) for one in sorted(short)[:_SHOWN])
    return [
        f"Questions have different numbers of samples, and the fewest limit K: {len(short):,} have only {fewest}, for"
        f" instance {shown}."
    ]


def largest_k(sizes: Sequence[int]) -> int:
    """The largest power of two up to the smallest of the sizes, each 1 or more."""
    return 1 << (min(sizes).bit_length() - 1)


def _short(text: str) -> str:
    """A question for a list of them: an id as it is, a text in quotes."""
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return repr(short) if " " in short else short
