"""Shows how much of each shared GPU every container uses, compared with what it was allocated.

The rooms and their order are described in ``docs/architecture.md`` and checked by import-linter.
"""

__version__ = "0.1.0"
