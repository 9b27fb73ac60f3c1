"""Names, containers, owners and resources of this node's pods; one module per source.

This room is the only one that speaks to the API server or the kubelet, and ``client`` the only
importer of the kubernetes package. It decides nothing about GPUs: annotations and limits pass
through as they are, bounded, for ``exporter.allocations`` to read.
"""
