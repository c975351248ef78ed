"""Large manifests, as they fit into a VidraResource: gzip in base64.

etcd takes requests of up to 1.5 MiB, and an object is one request: its manifest, the rest of its spec, its metadata
with managedFields, and its status with the inventory. Whoever watches gets all of it on every change. So a manifest
has its share, compressed from a size on where it would be the object's main part.
"""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode

#: etcd's default --max-request-bytes, which the API server can't exceed.
ETCD_REQUEST_LIMIT = 1536 * 1024

#: Manifests up to here (bytes of JSON) stay readable in spec.manifest. A third of etcd's limit: with a status of the
#: same size the object is still well inside.
COMPRESS_ABOVE = ETCD_REQUEST_LIMIT // 3

#: The largest compressedManifest. What it leaves, 512 KiB, holds the inventory of about 3000 objects.
MAX_COMPRESSED = 1024 * 1024

#: The largest text that is unpacked again, so that a small blob can't fill the memory.
MAX_UNPACKED = 16 * 1024 * 1024

_GZIP = 31  # zlib's number for a gzip frame, without a time in it


class ManifestTooLarge(ValueError):
    """It doesn't fit into an object, even compressed."""


class BadCompressedManifest(ValueError):
    """Not what :func:`compress_manifest` makes, or more than the limit when unpacked."""


def needs_compression(text: str) -> bool:
    """Whether ``text`` takes too much room as it is. JSON counts: line breaks and quotes take two bytes there."""
    if len(text) > COMPRESS_ABOVE:
        return True
    if len(text) <= COMPRESS_ABOVE // 6:  # no character takes more
        return False
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) > COMPRESS_ABOVE


def compress_manifest(text: str) -> str:
    """ASCII text for spec.compressedManifest; the same for the same text. Raises :class:`ManifestTooLarge`."""
    data = text.encode()
    if len(data) > MAX_UNPACKED:
        raise ManifestTooLarge(f"the manifest has {len(data)} bytes, and at most {MAX_UNPACKED} can be stored")
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    blob = b64encode(packer.compress(data) + packer.flush()).decode()
    if len(blob) > MAX_COMPRESSED:
        raise ManifestTooLarge(
            f"the manifest has {len(data)} bytes and still {len(blob)} when compressed; at most {MAX_COMPRESSED} fit"
        )
    return blob


def decompress_manifest(blob: str, limit: int = MAX_UNPACKED) -> str:
    """The text again, of at most ``limit`` bytes of UTF-8. Raises :class:`BadCompressedManifest`."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        packed = b64decode("".join(blob.split()), validate=True)
        data = unpacker.decompress(packed, limit + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise BadCompressedManifest(f"compressedManifest isn't gzip in base64: {error}") from None
    if len(data) > limit:
        raise BadCompressedManifest(f"compressedManifest unpacks to more than {limit} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise BadCompressedManifest("compressedManifest is cut short, or something follows it")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadCompressedManifest("compressedManifest doesn't hold UTF-8 text") from None
