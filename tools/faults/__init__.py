"""Fault injection: damaged files, killed runs, failing environments."""
