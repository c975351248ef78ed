"""Benchmarks: Vidra beside bare API calls and kubectl, in one run, on this machine. `make bench` runs them."""
