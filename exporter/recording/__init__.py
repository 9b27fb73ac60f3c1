"""What the sources said, cycle by cycle, on file; and sources that say it again.

``recorder`` stands between the sources and the cycle and writes down what passes; ``player`` gives
it to another cycle, which then does the same. ``disguise`` replaces names on the way, ``codec`` and
``tape`` are the file. Nothing is measured or judged in here, and what is read from a file is only
ever data: values of ``exporter.model``, bounded in size and checked in type.
"""
