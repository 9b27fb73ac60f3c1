"""What a client may see of the node."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """The namespaces whose rows a client may see; None stands for all of the node."""

    namespaces: frozenset[str] | None = None

    @property
    def whole(self) -> bool:
        """Whether the client may see everything."""
        return self.namespaces is None

    @property
    def tag(self) -> str:
        """The end of an entity tag; different views have different ones."""
        if self.namespaces is None:
            return ""
        names = "/".join(sorted(self.namespaces))
        return f"-{hashlib.sha256(names.encode(errors='surrogatepass')).hexdigest()[:32]}"


WHOLE = View()
NOTHING = View(frozenset())
