"""A model of the user as a policy of the run: links to its files, or an adapter merged into the base.

The functions take paths alone, for `run_limited`. They import late: the process that starts it needs no torch.

Args of both:
    weights: the folder to make.
    checked: the folder to check, which messages name: the user's, or `weights` where that has other files too.
    files: of the model, all from one folder.
"""

from pathlib import Path

from dphrl.store.files import link_files


def import_base(weights: Path, checked: Path, *files: Path) -> None:
    """Make the folder of the base model.

    Raises:
        ValueError: a part is missing, damaged or cannot be used.
    """
    from dphrl.policy.check_model import check_base

    link_files(files, weights)
    check_base(checked)


def import_checkpoint(weights: Path, checked: Path, base: Path, *files: Path) -> None:
    """Make the folder of a checkpoint.

    Raises:
        ValueError: as `import_base`; or the checkpoint has another tokenizer than the base.
    """
    from dphrl.policy.adapter import SETTINGS, merge_adapter
    from dphrl.policy.check_model import check_base, check_same_tokenizer

    names = {file.name for file in files}
    # An adapter saved without a tokenizer uses the tokenizer of its base.
    if "tokenizer_config.json" in names or SETTINGS not in names:
        check_same_tokenizer(files[0].parent, base)
    if SETTINGS in names:
        merge_adapter(files[0].parent, base, weights)
        check_base(weights)
    else:
        link_files(files, weights)
        check_base(checked)
