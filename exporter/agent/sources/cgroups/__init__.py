"""Processes → containers, from the cgroup file system and ``/proc``.

This package reads ``/sys/fs/cgroup`` and ``/proc`` (their roots are parameters) and returns the pod
and container of a process. It has nothing to do with GPUs, the API server or metrics. Parsing paths
(``layout``) is pure and separate from reading files.
"""
