"""Checks of an environment: Gymnasium's own, and what a safety constraint needs."""
