"""NVIDIA GPUs through the driver's own management library, NVML.

``library`` finds and opens it and is the only importer of pynvml; ``calls`` makes the calls of each
cycle without it; ``discovery`` lists devices and MIG instances; ``device`` reads one of them;
``driver`` opens the driver and opens it again; ``source`` is what the collector sees. Process ids
are those of the host's pid namespace: with ``hostPID`` absent the driver hides or renumbers them.
"""
