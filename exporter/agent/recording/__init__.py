"""Recordings of what the sources answered, cycle by cycle, and sources that replay them.

``recorder`` stands between the sources and the cycle and records their answers. ``player`` gives
the answers to another cycle, which then does the same. ``pseudonyms`` replaces names on the way,
``codec`` and ``recordingfile`` are the file format. This package measures and judges nothing. What
it reads from a file is only data: values of ``exporter.model``, bounded in size and checked in
type.
"""
