"""Names of groups outside Kubernetes: containers' names, jobs' users and accounts.

This package asks container engines over their Unix sockets and reads the host's ``passwd`` file and
``/proc``. Names are for display: no counter depends on them. It changes nothing on the machine.
"""
