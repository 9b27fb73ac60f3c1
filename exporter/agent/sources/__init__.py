"""Everything that is read from outside: cgroups, GPUs, pods, node facts, groups.

Each source stands behind a Protocol, and no source imports another. They report facts; they do
not decide who owns what.
"""
