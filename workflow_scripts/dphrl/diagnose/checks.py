"""What makes a comparison of two files doubtful: unequal settings, truncated and empty answers, few samples."""

from collections.abc import Mapping, Sequence

import polars as pl

from dphrl.diagnose.joined import Joined, known_as
from dphrl.evaluation.names import BASE
from dphrl.evaluation.study import Study
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


def qualifications(shares: pl.DataFrame, k: int) -> dict[str, list[str]]:
    """By policy, what qualifies its verdict: K = 1, and shares of truncated or empty answers unlike the base's."""
    of = {row["method"]: row for row in shares.iter_rows(named=True)}
    found: dict[str, list[str]] = {}
    for name, row in of.items():
        found[name] = [_ACCURACY] if k == 1 else []
        for share in ("truncated", "empty"):
            mine, base = row[share], of[BASE][share]
            if mine is not None and base is not None and abs(mine - base) > QUALIFIES:
                found[name].append(
                    f"{mine:.1%} of the answers of {name} are {share}, {base:.1%} of the base's: the difference may"
                    " come from that and not from a loss of diversity."
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
