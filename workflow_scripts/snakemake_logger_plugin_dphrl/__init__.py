"""A logger plugin of Snakemake, `logger: dphrl` in the profiles: the terminal of a run."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_dphrl.terminal import Terminal, explained


class LogHandler(LogHandlerBase):
    """Shows what `Terminal` makes of the events of a run; a dry run and `--verbose` look as Snakemake shows them."""

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._terminal = None if settings.dryrun or settings.verbose else Terminal(sys.argv)
        self._stream = sys.stdout if settings.stdout else sys.stderr

    def emit(self, record: LogRecord) -> None:
        try:
            event = str(getattr(record, "event", None))
            text: str | None = self.format(record)
            if self._terminal is not None:
                text = self._terminal.show(event, text or "", vars(record))
            elif event == "error" and text:
                text = explained(text, sys.argv)
            if text and text != "None":
                print(text, file=self._stream, flush=True)
        except Exception:
            self.handleError(record)
