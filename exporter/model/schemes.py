"""A sharing system as a user describes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeDescription:
    """A simple sharing system: what its resources count, and where it writes the placement.

    Resources, annotations and labels are keys, "" for what the system has not. ``core_units`` of
    the core resource are one whole card, ``memory_unit`` is bytes. ``amounts`` is "total" where
    they are divided over the container's cards, "each" where every card has them. ``count_alone``
    says what a card is that is asked for by number alone: "whole-cards" or "no-limit".
    ``placement_annotation`` may hold ``{container}`` or ``{index}``, which stand for a container's
    name and for its place in ``spec.containers``. ``replaces`` names schemes that it stands for.
    """

    name: str
    core_resource: str = ""
    core_units: int = 100
    memory_resource: str = ""
    memory_unit: int = 1 << 20
    count_resource: str = ""
    amounts: str = "total"
    count_alone: str = "no-limit"
    placement_annotation: str = ""
    index_basis: str = "nvml_index"
    policy_annotation: str = ""
    policy_node_label: str = ""
    replaces: tuple[str, ...] = ()

    @property
    def resources(self) -> tuple[str, ...]:
        """The extended resources that it reads."""
        named = (self.core_resource, self.memory_resource, self.count_resource)
        return tuple(name for name in named if name)
