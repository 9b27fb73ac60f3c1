"""What each workload should ask for, by what a Prometheus saw of it."""
