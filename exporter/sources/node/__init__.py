"""What is known of this node besides its devices and pods: one module per source.

Who holds which device ids, what claims were allocated, how cards are shared. This room alone speaks
to the kubelet's PodResources socket, and ``kubelet`` is the only importer of grpc. It decides
nothing about GPUs: ids pass through as they are, bounded, for ``exporter.allocations`` to read. No
source here may make the cycle wait.
"""
