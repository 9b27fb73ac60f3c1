"""What two questions share: how a Prometheus or an exporter is asked, and what its answers mean.

``queryapi`` asks a Prometheus. ``lives`` and ``presence`` say which target was there when;
``storedcounters`` and ``growth`` say what counters counted, through restarts and gaps. ``feeds``
turns documents and series into the lines that people see. Documents are not trusted: fields may be
missing or have other types, and texts lose everything that a terminal acts on.
"""
