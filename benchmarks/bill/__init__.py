"""How long a bill of a month takes, under a real Prometheus."""
