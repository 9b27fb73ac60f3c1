"""What groups are called, kept by the recorder."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exporter.groups.source import GroupSource
from exporter.model import CgroupIdentity, GroupFacts, GroupKey, GroupMember, SourceStatus
from exporter.recording.cycle import Called
from exporter.recording.draft import Report
from exporter.recording.noting import noted, rejected, status

if TYPE_CHECKING:
    from exporter.recording.recorder import Recorder


class RecordedGroups:
    """A ``GroupSource`` whose answers are kept; it is asked about the real groups."""

    def __init__(self, source: GroupSource, position: int, recorder: "Recorder") -> None:
        self.name = source.name
        self._source = source
        self._position = position
        self._recorder = recorder

    def start(self) -> None:
        """Let the source begin."""
        self._source.start()

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """What the source says, in the names of the recording."""
        recorder = self._recorder
        real = {
            key: member._replace(identity=identity)
            for key, member in members.items()
            if isinstance(identity := recorder.real_identities.get(member.pid), CgroupIdentity)
        }

        def ask() -> Called:
            told = self._source.facts(real)
            return Called({key: recorder.names.group(facts) for key, facts in told.items()})

        called = recorder.draft.called
        return noted(ask, lambda answer: called.__setitem__(self._position, answer)).facts

    def status(self) -> SourceStatus:
        """How the source fares."""
        return status(self._source, self._report, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        """What the source could not use."""
        return rejected(self._source, self._report)

    @property
    def _report(self) -> Report:
        return self._recorder.draft.groups[self._position]

    def close(self) -> None:
        """Close the source."""
        self._source.close()
