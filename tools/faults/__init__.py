"""Damaged files, killed runs, failing environments: what a run must survive, counted."""
