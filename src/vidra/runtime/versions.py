"""How two resourceVersions of one collection compare.

Kubernetes 1.35 and later promise that they are numbers that grow. Of others one knows only whether they are the same.
"""

from __future__ import annotations


def at_least_as_new(version: str, than: str) -> bool:
    """Whether ``version`` is ``than`` or a later one; False too where that can't be known."""
    if version.isdecimal() and than.isdecimal():
        return int(version) >= int(than)
    return version == than


def older(version: str, than: str) -> bool:
    """Whether ``version`` is certainly from before ``than``."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
