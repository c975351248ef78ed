"""The two reconcilers, and what they tell in status."""
