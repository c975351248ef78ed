"""The machinery of a controller, for any kind and any purpose: it knows API servers and nothing of what is built on it.

watch line -> reflector -> store -> predicate -> work queue -> controller -> a reconcile function of somebody else.
"""
