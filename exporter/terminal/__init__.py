"""GPUs, pods, containers and processes for a person in a terminal.

Everything shown is read from the documents of ``exporter.api``, whoever made them: this process, an
exporter on another machine, a Prometheus. They are read as hostile: any of it may be missing or of
another type, and no text reaches the terminal with anything in it that a terminal acts on. ``app``
alone imports textual, an optional extra; whatever can do without it (``snapshot``) does. Nothing
here measures, and nothing is shown as 0 that is not known.
"""
