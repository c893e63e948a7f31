"""Cases of operations as functions of the inputs that are differentiated."""

import autodiff as ad


def tensors(arrays):
    return [ad.tensor(x) for x in arrays]


def moved(case, point, f, wrt=None):
    """f as a function of the differentiated inputs alone, the others fixed at `point`."""

    def g(*moving):
        arguments = tensors(point)
        for i, x in zip(case.wrt if wrt is None else wrt, moving, strict=True):
            arguments[i] = x
        return f(*arguments)

    return g
