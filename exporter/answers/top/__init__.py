"""GPUs, pods, containers and processes in a terminal, live or once.

Only ``liveview`` and ``linetree`` import textual, which is an optional extra. Unknown values are
never shown as 0.
"""
