"""Accounts over time: windows in, counters and averages out.

Pure but for its own state: no clock of its own, no I/O; the time is a parameter. All amounts are
integers. An account never falls; it is kept for a while after its owner has gone, and what it
counted stays in the accounts of its device and namespace for as long as the exporter runs.
"""

from exporter.ledger.accounts import Account, Moment
from exporter.ledger.book import Book
from exporter.ledger.book_view import CycleFacts
from exporter.ledger.history import extended, gauges_of
from exporter.ledger.late import LateRows, table_of
from exporter.ledger.ledger import Ledger
from exporter.ledger.limits import Allotted
from exporter.ledger.present import present_of
from exporter.ledger.processes import processes_of, unattributed_core
from exporter.ledger.rows import at_most, rows_of

__all__ = [
    "Account",
    "Allotted",
    "Book",
    "CycleFacts",
    "LateRows",
    "Ledger",
    "Moment",
    "at_most",
    "extended",
    "gauges_of",
    "present_of",
    "processes_of",
    "rows_of",
    "table_of",
    "unattributed_core",
]
