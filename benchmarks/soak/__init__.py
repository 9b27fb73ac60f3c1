"""An hour of a node's life at twenty times its speed: what grows, falls or goes missing in it."""
