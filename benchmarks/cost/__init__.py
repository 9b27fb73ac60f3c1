"""What the exporter costs, side by side with others on one node in one run.

The node is real processes in real cgroups, the stand-in for NVML, and an API server; each in
processes of their own, so that no agent is charged for them. Everything is said as CPU per unit of
work, never as a wall-clock claim. ``python -m benchmarks.cost`` prints the tables of
results.md.
"""
