"""Manifest text to objects in one cluster: read, plan, apply, prune, and who owns what.

A library: it knows no queue and no reconcile, and of the cluster only a client, its discovery and what is live.
"""
