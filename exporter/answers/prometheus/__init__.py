"""Questions asked of a Prometheus that scrapes exporters: what did it cost, what to ask for, why.

``client`` speaks the query API. ``growth`` finds what counters counted, through restarts and gaps.
Nothing here reads a node.
"""
