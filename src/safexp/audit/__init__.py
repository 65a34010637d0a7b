"""Exact bounds on how often a trained policy violates its constraint."""
