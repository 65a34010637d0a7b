"""Measurements of speed, made where they are asked for."""
