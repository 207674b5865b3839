"""The files of the embedded world: databases, SQL questions, word problems, supervised corpus, tokenizer."""

import json
import operator
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from dphrl.config.blocks.toy import ToyConfig
from dphrl.toy.databases import CROSS_DATABASES, TRAINING_DATABASES, Oracle, write
from dphrl.toy.questions import SHARES, STYLES, Answer, answer_question, answerable, draw_question, draw_split

TRAINING_SHARE, CROSS_SHARE = 0.45, 0.30
# Strata of the supervised SQL answers. No key of the configuration, so that worlds with other shares of questions share
# one base model.
STRATA_SHARES = {"plain": 0.33, "noisy": 0.27, "ambiguous": 0.40}
# Of the 10 lots of prompts, 4 are for training questions, 3 for test questions, 3 for the corpus only.
TRAIN_LOTS, TEST_LOTS = (0, 1, 2, 3), (4, 5, 6)
PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"

# Word problems, out of the domain of RL, and the four ways in which the corpus answers them.
WRITINGS = ("bare", "equation", "words", "inline")
BLIND_RATE = 0.5
RIGHT_ON_BLIND_SPOT, RIGHT_ELSEWHERE = 0.03, 0.95

_NAMES = ("Ann", "Ben", "Eva", "Ida", "Leo", "Max", "Mia", "Tom")
_NOUNS = ("apples", "balls", "cards", "coins", "cups", "pens", "shells", "stamps")
_SYMBOLS = {"plus": "+", "minus": "-", "times": "*"}
_COMPUTE: dict[str, Callable[[int, int], int]] = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}
_TEXTS = {
    "plus": "{name} has {a} {noun} and gets {b} more. How many {noun} now?",
    "minus": "{name} has {a} {noun} and loses {b}. How many {noun} are left?",
    "times": "{name} has {a} bags of {b} {noun}. How many {noun}?",
}
# Sums to 18, differences from 15, products to 36.
_OPERANDS = {
    "plus": [(a, b) for a in range(1, 10) for b in range(1, 10)],
    "minus": [(a, b) for a in range(2, 16) for b in range(1, a)],
    "times": [(a, b) for a in range(2, 10) for b in range(2, 10) if a * b <= 36],
}


@dataclass(frozen=True)
class WordProblem:
    """A word problem: `operation` is plus, minus or times, `a` and `b` its operands in the order of the text."""

    operation: str
    a: int
    b: int
    name: str
    noun: str

    @property
    def prompt(self) -> str:
        """The question and the start of the answer."""
        return f"Q: {_TEXTS[self.operation].format(**vars(self))}\nA: "

    @property
    def answer(self) -> int:
        """The right result."""
        return _COMPUTE[self.operation](self.a, self.b)


def draw_problem(rng: random.Random) -> WordProblem:
    """A random problem, uniform over the operations."""
    operation = rng.choice(tuple(_OPERANDS))
    a, b = rng.choice(_OPERANDS[operation])
    return WordProblem(operation, a, b, rng.choice(_NAMES), rng.choice(_NOUNS))


def draw_problems(number: int, seed: int) -> list[WordProblem]:
    """`number` problems with different prompts. Raises `ValueError` when there are too few."""
    rng = random.Random(f"{seed}/questions/maths")
    pool = sum(map(len, _OPERANDS.values())) * len(_NAMES) * len(_NOUNS)
    if number > pool // 4:
        raise ValueError(f"toy.questions.maths: {number} asked for, at most {pool // 4} leave enough for the corpus")
    chosen: dict[str, WordProblem] = {}
    while len(chosen) < number:
        problem = draw_problem(rng)
        chosen.setdefault(problem.prompt, problem)
    return list(chosen.values())


def answer_problem(problem: WordProblem, writing: str, seed: int, rng: random.Random) -> Answer:
    """The response to a word problem in one way of writing.

    A way of writing is nearly always wrong on its blind spots: second operands of an operation, drawn by the seed. A
    wrong result is off by 1 or 2, or is the result of another operation.
    """
    blind = random.Random(f"{seed}/blind/{writing}/{problem.operation}/{problem.b}").random() < BLIND_RATE
    result = problem.answer
    if rng.random() >= (RIGHT_ON_BLIND_SPOT if blind else RIGHT_ELSEWHERE):
        near = {result - 2, result - 1, result + 1, result + 2}
        confused = {compute(problem.a, problem.b) for compute in _COMPUTE.values()}
        result = rng.choice(sorted(number for number in (near | confused) - {problem.answer} if number >= 0))
    symbol = _SYMBOLS[problem.operation]
    boxed = f"\\boxed{{{result}}}"
    response = {
        "bare": boxed,
        "equation": f"{problem.a} {symbol} {problem.b} = {result} {boxed}",
        "words": f"{problem.a} {problem.operation} {problem.b} is {boxed}",
        "inline": f"the answer is {boxed}",
    }[writing]
    return Answer(response, correct=result == problem.answer)


def build_world(folder: Path, config: ToyConfig) -> None:
    """Write the world into `folder`; the same config gives the same bytes.

    - `databases/<db>/<db>.sqlite`
    - `questions/{train,in_domain,cross}.jsonl`: prompt, db_id, gold_sql, family, level (the stratum)
    - `questions/maths.jsonl`: prompt, answer, level (the operation)
    - `corpus.jsonl`: prompt, response, kind (sql or maths), db_id, family, annotator (the style), correct
    - `tokenizer/`: a Hugging Face tokenizer folder

    No prompt is in two splits, or in a split and the corpus. Raises `ValueError` when the config asks for more
    questions than exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Oracle(config.seed)) as oracle:
        for name, connection in oracle.connections.items():
            write(connection, folder / "databases" / name / f"{name}.sqlite")
        splits = {
            name: draw_split(
                name, strata.numbers(getattr(config.questions, name)), databases, lots, config.seed, oracle
            )
            for name, databases, lots, strata in (
                ("train", TRAINING_DATABASES, TRAIN_LOTS, config.train_strata),
                ("in_domain", TRAINING_DATABASES, TEST_LOTS, config.test_strata),
                ("cross", CROSS_DATABASES, TEST_LOTS, config.test_strata),
            )
        }
        problems = draw_problems(config.questions.maths, config.seed)
        for name, questions in splits.items():
            rows = (
                {"prompt": q.prompt, "db_id": q.database, "gold_sql": q.sql, "family": q.family, "level": q.stratum}
                for q in questions
            )
            _write_jsonl(folder / "questions" / f"{name}.jsonl", rows)
        word_problems = ({"prompt": p.prompt, "answer": str(p.answer), "level": p.operation} for p in problems)
        _write_jsonl(folder / "questions" / "maths.jsonl", word_problems)
        taken = {question.prompt for questions in splits.values() for question in questions}
        taken |= {problem.prompt for problem in problems}
        corpus = _corpus(config, taken, oracle)
    _write_jsonl(folder / "corpus.jsonl", corpus)
    texts = [str(row[field]) for row in corpus for field in ("prompt", "response")]
    write_tokenizer(texts, config.vocabulary, folder / "tokenizer")


def _corpus(config: ToyConfig, taken: set[str], oracle: Oracle) -> list[dict[str, object]]:
    """Answered questions of the training databases and of the cross databases, and answered word problems."""
    rng = random.Random(f"{config.seed}/corpus")
    training, cross = round(TRAINING_SHARE * config.corpus), round(CROSS_SHARE * config.corpus)
    sources = [TRAINING_DATABASES] * training + [CROSS_DATABASES] * cross + [()] * (config.corpus - training - cross)
    rng.shuffle(sources)
    rows: list[dict[str, object]] = []
    for databases in sources:
        if databases:
            stratum = rng.choices(tuple(STRATA_SHARES), tuple(STRATA_SHARES.values()))[0]
            question = draw_question(databases, stratum, config.seed, rng)
            while question.prompt in taken or not answerable(question, oracle):
                question = draw_question(databases, stratum, config.seed, rng)
            annotator = rng.choices(STYLES, SHARES)[0]
            answer = answer_question(question, annotator, oracle, rng)
            prompt, kind, database, family = question.prompt, "sql", question.database, question.family
        else:
            problem = draw_problem(rng)
            while problem.prompt in taken:
                problem = draw_problem(rng)
            annotator = rng.choice(WRITINGS)
            answer = answer_problem(problem, annotator, config.seed, rng)
            prompt, kind, database, family = problem.prompt, "maths", None, problem.operation
        rows.append(
            {
                "prompt": prompt,
                "response": answer.response,
                "kind": kind,
                "db_id": database,
                "family": family,
                "annotator": annotator,
                "correct": answer.correct,
            }
        )
    return rows


def _write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Train a byte-pair encoding with single digits on the texts, and write it as a Hugging Face tokenizer folder.

    The alphabet is the characters of the texts: all 256 bytes would take half of such a small vocabulary.
    Any other character becomes `<unk>`. Encoding adds no special token.
    """
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[PAD, EOS, UNKNOWN], initial_alphabet=[], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    folder.mkdir(parents=True, exist_ok=True)
    wrapped.save_pretrained(folder)
