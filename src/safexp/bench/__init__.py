"""Benchmarks of `safexp bench`: speed, and coverage of quantifiers."""
