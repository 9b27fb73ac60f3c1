"""Sources of this node's pods: the API server, the kubelet, log files, a scenario.

Only this package connects to the API server or the kubelet's pod list, and only ``client`` imports
the kubernetes package. It decides nothing about GPUs: annotations and limits are passed on
unchanged and bounded, and ``exporter.agent.allocations`` reads them.
"""
