"""Shields as C: a fixed core in `core/*.c`, and the learned numbers of a shield as one table."""
