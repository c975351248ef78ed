"""One API server: session, raw JSON client, discovery, errors.

Objects stay the raw dicts the server sends: most of them belong to others and may hold fields Vidra doesn't know.
Nothing here retries on its own, except one fresh login after a 401: whoever calls knows best what waiting costs.
"""
