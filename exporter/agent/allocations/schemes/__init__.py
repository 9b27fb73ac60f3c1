"""The decoders, one module per sharing system.

A decoder is a pure function of a pod and the node's facts. ``allocations.registry`` lists them in
the order in which they are tried. A module's docstring is its section in docs/sharing.md.
"""
