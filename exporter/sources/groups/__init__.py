"""What groups off Kubernetes are called: containers' names, jobs' users and accounts.

This room asks container engines over their Unix sockets and reads the host's ``passwd`` file and
``/proc``. A name is for people: no counter stands under it, and without it nothing is measured
less. It knows nothing of GPUs, pods or metrics, and changes nothing on the machine.
"""
