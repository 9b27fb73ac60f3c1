"""Who used what: joins processes, owners and sample windows. Pure.

For every device and window the parts add up to the device: containers, groups and unattributed.
"""
