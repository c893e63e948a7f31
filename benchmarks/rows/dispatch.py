"""The time to choose a method by types: a generic function with thirty methods, called a thousand times with two
tensors, compared with libraries for dispatch, and with a plain function (`limit`)."""

import numpy as np
from targets import within

TITLE = "1,000 calls of a function with 30 methods"
CASES = ["two arguments"]
TARGETS = [within(1, "multipledispatch")]


def inputs(case):
    return (np.ones(3),)


#: The types of 29 methods that no call here chooses.
OTHERS = [type(f"Other{i}", (), {}) for i in range(29)]


def _thousand(f, x):
    def run():
        for _ in range(1000):
            f(x, x)
        return 0.0

    return run


def ours(a):
    import autodiff as ad

    @ad.function
    def f(x, y): ...

    @f.method(ad.Vector, ad.Vector)
    def _(x, y):
        return x

    for other in OTHERS:

        @f.method(other, other)
        def _(x, y):
            return x

    return _thousand(f, ad.tensor(a))


def multipledispatch(a):
    from multipledispatch import Dispatcher

    f = Dispatcher("f")
    for type_ in (np.ndarray, *OTHERS):
        f.add((type_, type_), lambda x, y: x)
    return _thousand(f, a)


def functools(a):
    from functools import singledispatch

    @singledispatch
    def f(x, y): ...

    for type_ in (np.ndarray, *OTHERS):
        f.register(type_, lambda x, y: x)
    return _thousand(f, a)


def limit(a):
    return _thousand(lambda x, y: x, a)
