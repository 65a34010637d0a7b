"""The shield: which actions are safe, what replaces the others, the logs it learns from, and a policy around it."""
