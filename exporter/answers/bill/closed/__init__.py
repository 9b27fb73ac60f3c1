"""Closed days: the books of a day, written once, of which any longer bill is the sum."""
