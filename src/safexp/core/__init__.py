"""What every part shares: array types, spaces as numbers, where costs are read, and files without pickle."""
