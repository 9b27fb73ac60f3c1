"""How long the queries of a board take over a fleet, under a real Prometheus."""
