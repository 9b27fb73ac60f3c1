"""What containers were allotted: one pure decoder per sharing system, one registry.

A decoder takes a pod and the node's facts and returns allocations. It may not read files, ask a
server, keep state or raise: what it cannot read costs that pod its allotment and is counted.
"""
