"""Destinations: one session, discovery and set of caches per cluster, shared by all its resources."""
