"""The commands for people: what each of them asks for, and how it is printed."""
