"""What people write: settings and other files in YAML, and the values of flags."""
