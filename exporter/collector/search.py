"""How long devices are looked for that an allocation names and no source knows."""

from collections.abc import Collection

LONGEST_NS = 60 * 10**9


class Search:
    """Each pod has devices looked for at once for a minute; then they are found as any other."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # by pod

    def is_on(self, awaited: Collection[str], mono_ns: int) -> bool:
        """Whether to look again for devices of these pods, by uid."""
        self._since = {uid: self._since.get(uid, mono_ns) for uid in awaited}
        return any(mono_ns - since < LONGEST_NS for since in self._since.values())
