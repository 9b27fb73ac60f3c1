"""The table of metric families, and the formats in which they are exposed."""
