"""Processes → containers, from the cgroup file system and ``/proc``.

This room reads ``/sys/fs/cgroup`` and ``/proc`` (their roots are parameters) and answers which pod
and container a process belongs to. It knows nothing of GPUs, of names from the API server, or of
metrics. Reading files and parsing paths are apart: ``layout`` is pure.
"""
