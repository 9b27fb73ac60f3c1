"""The answers: commands for people, on any machine, from what agents published."""
