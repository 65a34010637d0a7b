"""Vector wrappers that put a safety method between a learner and its environments."""
