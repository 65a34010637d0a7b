"""Gaussian processes: exact, sparse and deep."""
