"""Units of time and size, once: what is counted is in nanoseconds and bytes."""

SECOND_NS = 10**9
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
