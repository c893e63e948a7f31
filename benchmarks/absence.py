"""The error of a peer that cannot take part in a measurement."""

__all__ = ["Absent"]


class Absent(Exception):
    """Raised for a peer that cannot run on this machine, or cannot do this work; the message is a short reason."""
