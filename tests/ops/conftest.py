"""In which order the laws are tried."""

from pathlib import Path


def pytest_collection_modifyitems(items):
    """The laws of one call follow each other: what one compiles the next finds, since programs are kept for a while."""
    here = Path(__file__).parent
    tried = [item.path.parent == here and "call" in getattr(item, "fixturenames", ()) for item in items]
    places = [i for i, is_law in enumerate(tried) if is_law]
    first_seen = {}
    for i in places:
        first_seen.setdefault(by_call(items[i]), i)
    laws = sorted((items[i] for i in places), key=lambda item: first_seen[by_call(item)])
    for i, item in zip(places, laws, strict=True):
        items[i] = item


def by_call(item):
    return item.path, item.callspec.params["call"]
