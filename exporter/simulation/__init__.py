"""A described node in memory with a clock and the truth.

Devices, pods, processes and their work over time, from a small YAML file. The simulated sources,
tests and benchmarks stand on it. It behaves as the driver does (sample ring, one pid a sample,
truncation) and, unlike the driver, knows the true busy time. It knows nothing of metrics.

``load`` reads a file into the ``description``; ``node`` brings it to life. Everything is a pure
function of the description, the start and the clock: nothing accumulates, any moment can be asked
for, and what is kept is bounded and only saves work.
"""
