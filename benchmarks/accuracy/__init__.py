"""The accuracy bench: busy seconds and energy of containers, measured and true.

Several estimators read the same samples of a simulated node in one run, and the node knows the
truth. ``python -m benchmarks.accuracy`` prints the tables of results.md.
"""
