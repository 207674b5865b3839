"""A logger plugin of Snakemake, `logger: dphrl` in the profiles: the terminal of a run."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_dphrl.terminal import Terminal, explained, planned


class LogHandler(LogHandlerBase):
    """Shows what `Terminal` makes of the events of a run, and each job of a dry run as `planned` lists it.

    With `--verbose` both look as Snakemake shows them.
    """

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._terminal = None if settings.dryrun or settings.verbose else Terminal(sys.argv)
        # An option `--quiet host` in the command shows the reasons, which the profile leaves out.
        self._reasons = "reason" not in {str(value) for value in settings.quiet or ()}
        self._stream = sys.stdout if settings.stdout else sys.stderr

    def emit(self, record: LogRecord) -> None:
        try:
            event = str(getattr(record, "event", None))
            text: str | None = self.format(record)
            if self._terminal is not None:
                text = self._terminal.show(event, text or "", vars(record))
            elif event == "job_info" and not self.common_settings.verbose:
                text = planned(vars(record), self._reasons)
            elif event == "error" and text:
                text = explained(text, sys.argv)
            if text and text != "None":
                print(text, file=self._stream, flush=True)
        except Exception:
            self.handleError(record)
