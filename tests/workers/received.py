"""The things that a fresh process makes of those that `sent_things.py` sent: a line for each thing that differs."""

import pickle
import sys


def plain(y):
    """Tensors and arrays as lists, to compare."""
    import autodiff as ad

    if isinstance(y, ad.Tensor):
        return y.detach().tolist()
    if isinstance(y, (tuple, list)):
        return [plain(v) for v in y]
    return y.tolist() if hasattr(y, "tolist") else y


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as opened:
        everything = pickle.load(opened)
    for name, data, expected in everything:
        try:
            for _ in range(2):  # what arrives again is as before
                f, args = pickle.loads(data)
                found = plain(f(*args))
                if found != expected:
                    print(f"{name}: {found}, not {expected}")
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(everything)} things")
