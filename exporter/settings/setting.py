"""What the table holds of one setting."""

from dataclasses import dataclass

from exporter.settings.values import Kind


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is the flag without dashes and the YAML key; ``default`` its text.

    ``live``: a change in the settings file is taken up while the exporter runs.
    """

    name: str
    kind: Kind[object]
    default: str
    about: str
    why: str = ""
    live: bool = False

    @property
    def variable(self) -> str:
        """The environment variable, e.g. ``MGPU_WEB_LISTEN_ADDRESS``."""
        return "MGPU_" + self.name.upper().replace(".", "_").replace("-", "_")
