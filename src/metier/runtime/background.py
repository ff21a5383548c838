"""Filling the index beside whatever else happens: bodies, and vectors where they are wanted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..host.database import open_database
from ..sources import index
from .searching import catch_up

if TYPE_CHECKING:
    from .library import Library


class Reading:
    """The index of a library being filled by a thread of its own."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-index", daemon=True)
        self.left = -1
        """How many skills were still to read when it ended; -1 while nobody knows."""

    def start(self) -> Reading:
        self._thread.start()
        return self

    def stop(self, patience: float | None = None) -> None:
        """Leave off after the batch at hand, and wait for that."""
        self._stop.set()
        self._thread.join(patience)

    def wait(self, patience: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        stored = self._library.database
        if stored is None:
            return
        own, _ = open_database(stored.path, index.SCHEMA, index.READER)
        if own is None:
            return
        try:
            self.left = catch_up(self._library, own, self._go_on)
            if self._library.settings.dense and self._go_on():
                from ..host.encoder import encoder
                from .dense import encode_more

                self.left += encode_more(self._library, own, encoder(), self._go_on)
        finally:
            own.close()

    def _go_on(self) -> bool:
        return not self._stop.is_set()


def read_on(library: Library) -> Reading:
    """Begin to fill the index of a library; searching and listing go on meanwhile."""
    return Reading(library).start()
