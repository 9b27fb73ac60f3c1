"""What commands about now cost on a fleet, under a real Prometheus."""
