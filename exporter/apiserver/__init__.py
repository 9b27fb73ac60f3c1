"""The one client of the API server, for the agent and for kubectl mgpu."""
