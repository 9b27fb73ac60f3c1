"""What the cards that a Prometheus watches cost, and who pays for what."""
