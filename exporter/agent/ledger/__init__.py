"""Counters over time: the write model. Windows in, counters and averages out.

Pure except for its own state: no clock, no I/O; the time is a parameter. All amounts are integers.
A counter never falls. It is kept for some time after its owner has ended. What it counted stays
in the counters of its device and namespace as long as the exporter runs.
"""

from exporter.agent.ledger.accounts import Account, Moment
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.agent.ledger.ledger import Allocated, Ledger

__all__ = ["Account", "Allocated", "DeviceLedger", "Ledger", "Moment"]
