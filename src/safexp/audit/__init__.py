"""How often a trained policy violates its constraint, with exact bounds."""
