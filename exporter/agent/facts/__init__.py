"""What readers see of the ledger: typed facts, built when somebody asks for them. Pure.

``facts_of`` builds those of one cycle. ``history`` keeps the last hour of their gauges, and
``processes`` are those behind them.
"""

from exporter.agent.facts.build import at_most, facts_of
from exporter.agent.facts.factsview import CycleFacts

__all__ = ["CycleFacts", "at_most", "facts_of"]
