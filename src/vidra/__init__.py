"""Vidra: brings the artifacts Infrahub renders into Kubernetes clusters and keeps them true."""

__version__ = "0.1.0"
