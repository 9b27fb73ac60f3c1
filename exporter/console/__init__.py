"""How a program speaks with who started it: arguments, output, progress, messages."""
