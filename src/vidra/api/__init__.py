"""The two kinds, their names, states and conditions. Knows nobody: every other room may import it."""
