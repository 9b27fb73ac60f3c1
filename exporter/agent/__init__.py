"""The agent: runs on a node, measures, and serves what it measured."""
