"""The demo: from nothing to artifacts in a real control plane, shown while it happens. `make demo` runs it."""
