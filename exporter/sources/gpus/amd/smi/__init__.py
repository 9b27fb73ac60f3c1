"""AMD's own library as a second witness: ``libamd_smi.so``, where it is mounted and asked for.

What the library says is compared with what sysfs said and tells a Radeon's name; no account ever
stands on it. It is another's code in our process and opens device files, so that it is opened only
if ``--amd.smi`` says so. Only ``library`` calls it, and only in a thread that may hang.
"""
