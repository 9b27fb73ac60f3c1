"""How long a step of the wall clock costs, by size, state of the device, and clock of its samples.

Stands on the simulated device of ``tests/gpus/test_window_steps.py``.
"""
