"""Sources of node facts: device ids held by containers, allocated claims, policies of cards.

Only this package connects to the kubelet's PodResources socket, and only ``kubelet`` imports grpc,
only ``entries`` protobuf.
It decides nothing about GPUs: ids are passed on unchanged and bounded, and
``exporter.agent.allocations`` reads them. No source here makes the cycle wait.
"""
