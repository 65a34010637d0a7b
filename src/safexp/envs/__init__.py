"""Environments as learners see them: vector adapters, the guard, recordings, Sauté, early termination."""
