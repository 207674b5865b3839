"""The toy's tokenizer: byte-pair encoding trained on the supervised corpus, with single digits."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"


def write_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Learn the merges from the texts and write a Hugging Face tokenizer folder.

    The alphabet has only the characters of the texts: all 256 bytes would take half of such a small vocabulary.
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
