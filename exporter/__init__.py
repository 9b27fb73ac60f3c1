"""Which container used how much of which GPU, against what it was allocated.

The rooms and their order are described in ``docs/architecture.md`` and checked by import-linter.
"""

__version__ = "0.1.0"
