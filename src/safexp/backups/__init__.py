"""Backups and recovery: controllers, and stops, for states in which the learner may not continue."""
