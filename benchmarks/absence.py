"""Why a peer takes no part."""

__all__ = ["Absent"]


class Absent(Exception):
    """The peer cannot run here, or not this work; the message says why, in a few words."""
