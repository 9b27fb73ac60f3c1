"""How a pod, a workload, a job or a container fares, and what to do."""
