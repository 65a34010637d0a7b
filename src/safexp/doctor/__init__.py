"""Examination of a log: whether it suffices for a trustworthy shield, and what is missing."""
