"""Shared foundations: array types, encoding of spaces, costs and signals of a step, and files without pickle."""
