"""The allocations of containers: one pure decoder per sharing system, and their registry.

A decoder takes a pod and the node's facts and returns allocations. It does not read files, call a
server, keep state or raise. What it cannot read costs that pod its allocation and is counted.
"""
