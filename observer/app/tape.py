"""Where events go that are to be kept: the recording of a whole run, and the short ones of bundles."""

from __future__ import annotations

import logging
from collections.abc import Callable

from observer.collect.recording import Recorder

_log = logging.getLogger(__name__)


class Tape:
    """Gives each event to every recorder. A disk that is full ends a recording, never the watching."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorders: list[Recorder] = [] if recorder is None else [recorder]

    def write(self, event: Callable[[Recorder], None]) -> None:
        """Keep one event."""
        for recorder in tuple(self._recorders):
            try:
                event(recorder)
            except OSError as error:
                _log.error("recording ends here, the file cannot be written: %s", error.strerror or error)
                self.remove(recorder)

    def add(self, recorder: Recorder) -> None:
        """One more recorder hears of what comes."""
        self._recorders.append(recorder)

    def remove(self, recorder: Recorder) -> bool:
        """It hears of nothing more; False when it had ended already."""
        if recorder not in self._recorders:
            return False
        self._recorders.remove(recorder)
        return True
