"""Why a device does not tell what it does not tell: what its driver refused, and MIG."""

from collections.abc import Mapping

from exporter.gpus.nvml.discovery import MIG
from exporter.gpus.nvml.energy import BoardEnergy
from exporter.gpus.nvml.events import XID
from exporter.gpus.nvml.instance import InstanceActivity
from exporter.gpus.nvml.refusals import Refusals
from exporter.model import QUANTITIES, Device, Unmeasured

UNDER_MIG = dict.fromkeys(QUANTITIES, Unmeasured.MIG)


class Reasons:
    """``DeviceReading.unmeasured`` of one device: the same object while nothing has changed."""

    def __init__(self, refusals: Refusals, activity: InstanceActivity, energy: BoardEnergy) -> None:
        self._refusals = refusals
        self._activity = activity
        self._energy = energy
        self._of: tuple[object, ...] = ()
        self._told: Mapping[str, Unmeasured] = {}

    def of(
        self,
        device: Device,
        disabled: frozenset[str],
        xids: Unmeasured | None = None,
        *,
        divided: bool = True,
    ) -> Mapping[str, Unmeasured]:
        """Reason by quantity, that of its XIDs given; ``disabled`` families miss nothing.

        A board in MIG mode that is not ``divided`` has the memory of its processes itself.
        """
        of = (self._refusals.changes, device, disabled, xids, divided)
        if of != self._of:
            reasons = self._now(device, disabled, divided=divided)
            self._told = {**reasons, XID: xids} if xids else reasons
            self._of = of
        return self._told

    def _now(
        self, device: Device, disabled: frozenset[str], *, divided: bool
    ) -> Mapping[str, Unmeasured]:
        reasons = dict(self._refusals.unmeasured(disabled))
        if device.parent_uuid:
            reasons |= {**UNDER_MIG, "energy": Unmeasured.MIG}
            if self._activity.measured:
                del reasons["core"]
            if "memory" in reasons:  # then nobody knows whose the instance is
                reasons["core"] = reasons["memory"]
        elif device.sharing == MIG:
            reasons |= UNDER_MIG
            if divided:
                reasons["memory"] = Unmeasured.MIG
        if not device.parent_uuid and self._energy.method == "power":
            reasons.pop("energy", None)
        return reasons
