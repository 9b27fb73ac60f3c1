"""Reloads the settings when their file has changed, and on request.

New settings that cannot be used change nothing. Usable ones are applied at once and together if
they are live. The others wait for a restart, and a warning names them.
"""

import logging
import threading
from collections.abc import Callable

from exporter.agent.settings import TABLE, Settings, SettingsError, changed, with_live
from exporter.inputs.values import Setting
from exporter.inputs.yamldocument import read_bytes
from exporter.model import Clock, LastReload

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
LONGEST_SHOWN = 100  # characters of a value


class Reloader:
    """Reloads settings. Thread-safe. ``settings`` are the settings in force.

    ``read`` reads flags, environment and file as at the start; ``apply`` applies live settings.
    """

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        apply: Callable[[Settings], None],
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.last = LastReload(successful=True, success_unix_ns=clock.time_ns())
        self._read = read
        self._apply = apply
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._asked = threading.Event()
        # None is no file's contents. So the first two looks load the file once more, and with it
        # what was written since the start.
        self._looked: object = None  # the file's contents at the last look
        self._taken: object = None  # and when it was last loaded
        self._problem = ""

    def reload(self) -> str | None:
        """Reload the settings. Returns None, or why the old ones stay."""
        with self._one_at_a_time:
            # Looked at before it is read: what is written in between differs from this, and the
            # next look takes it.
            self._taken = _contents(self.settings.config_file)
            try:
                new = self._read()
            except SettingsError as error:
                # A file that stays wrong is read again at each request, and said once.
                before, self._problem = self._problem, "; ".join(map(str, error.problems))
                self.last = self.last._replace(successful=False)
                if self._problem != before:
                    said = "the settings cannot be used, the old ones stay in force: %s"
                    logger.error(said, self._problem)  # noqa: TRY400 - the message says it all
                return self._problem
            self._problem = ""
            settings = with_live(self.settings, new)
            taken = changed(self.settings, settings)
            waiting = changed(settings, new)
            if taken:
                # First applied, then in force: whoever applies compares with the settings before.
                self._apply(settings)
                self.settings = settings
                said = ", ".join(_said(setting, settings) for setting in taken)
                logger.info("in force from now on: %s", said)
            if waiting:
                said = ", ".join(setting.name for setting in waiting)
                logger.warning("changed, but in force only after a restart: %s", said)
            if not taken and not waiting:
                logger.debug("the settings were reloaded and have not changed")
            self.last = LastReload(successful=True, success_unix_ns=self._clock.time_ns())
            return None

    def ask(self) -> None:
        """Let the thread that watches reload. Who asks again meanwhile is answered once."""
        self._asked.set()

    def look(self) -> None:
        """Reload if the file has changed, and not since the last look.

        A file is not always written at once, and half of it may be valid. Contents are compared,
        not times, because Kubernetes swaps a symlink.
        """
        found = _contents(self.settings.config_file)
        is_stable = found == self._looked
        self._looked = found
        if is_stable and found != self._taken:
            self.reload()

    def watch(self, stop: threading.Event) -> None:
        """Look at the file every two seconds, and reload when asked to, until ``stop`` is set."""
        while not stop.is_set():
            # Without a file nothing changes by itself: the thread sleeps until somebody asks.
            is_asked = self._asked.wait(LOOK_EVERY_S if self.settings.config_file else None)
            self._asked.clear()
            try:
                if is_asked:
                    self.reload()
                else:
                    self.look()
            except Exception:
                logger.exception("checking the settings file failed; it is tried again")


def _contents(path: str) -> bytes | str:
    """The file's contents, or why it cannot be read: only to be compared with each other."""
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        return str(error)


def _said(setting: Setting, settings: Settings) -> str:
    """A setting with its value, so that the log does not collapse its next change."""
    field = next(field for field, one in TABLE.items() if one is setting)
    value = getattr(settings, field)
    if isinstance(value, tuple):
        value = ",".join(one if isinstance(one, str) else repr(one) for one in value)
    elif field.endswith("_ns"):
        value = f"{value / 1e9:g}s"
    elif field.endswith("_ppm"):
        value = f"{value / 1e4:g}%" if value else "none"
    text = str(value)
    return f"{setting.name}={text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + '...'}"
