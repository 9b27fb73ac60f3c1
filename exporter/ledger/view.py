"""What the rows are made from: the ledger at the end of one cycle, and the cycle's facts."""

from functools import cached_property

from exporter.ledger.accounts import Account
from exporter.ledger.book_view import BookView, CycleFacts
from exporter.ledger.ledger import Ledger
from exporter.ledger.owners import Owners
from exporter.model import ContainerKey, GroupKey


class View:
    """The ledger as seen at the end of one cycle, once settled. ``books`` are by device UUID."""

    def __init__(self, ledger: Ledger, facts: CycleFacts) -> None:
        self.ledger = ledger
        self.facts = facts
        self.limits = ledger.limits(facts.allotted)
        self.books = {u: BookView(book, ledger, facts) for u, book in ledger.books.items()}

    @cached_property
    def containers(self) -> Owners[ContainerKey]:
        """Each container on each device."""
        return Owners(self.books.values(), ContainerKey, self.ledger.kept["container"])

    @cached_property
    def groups(self) -> Owners[GroupKey]:
        """Each group on each device."""
        return Owners(self.books.values(), GroupKey, self.ledger.kept["group"])

    def live(self, account: Account) -> bool:
        """Whether the owner was there in this cycle, on whichever device."""
        return account.is_live(self.facts.now.mono_ns)
