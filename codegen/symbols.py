"""Symbolic integers: with these as extents, a program planned once serves every size of a batch.

A `Symbol` is an int, so the passes and the builder of kernels compute with it as with any extent; beside its value,
which is an example, it holds the polynomial of unknowns that gave the value. The result of planning then holds numbers
for the example and formulas for all other sizes.

    n = symbol("n", 10007)         -(-(17 * n) // 64)   is 2658, and ceil(17 n / 64)

A comparison must have an equal outcome for all sizes in use. If the outcome is certain for all n >= 2 (17 n > 17),
nothing is recorded; any other outcome is recorded as a condition (`watched`), which the user of the formulas must
check. Code that only chooses the likely faster of two right ways compares `typical(n)`, which records nothing; code
that simplifies an expression if it can prove a bound calls `is_sure`.

Different formulas are different numbers, even if the example makes their values equal: no dictionary takes a symbol
for a plain number.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .written import compile_function

#: The least value of a symbol.
LEAST = 2


class _Factor(str):
    """A quotient or a maximum, represented by its text; `least` is its lower bound, which follows from the text."""

    least: float

    def __new__(cls, text: str, least: float) -> _Factor:
        self = super().__new__(cls, text)
        self.least = least
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        """The arguments for a copy, by `copy` or `pickle`."""
        return str(self), self.least


def _least(factor: str) -> float:
    """The least value of a factor; for a factor that is the name of a symbol, that is `LEAST`."""
    return factor.least if isinstance(factor, _Factor) else LEAST


#: The factors of a product of symbols and quotients, repeated for powers, in sorted order.
Monomial = tuple[str, ...]
#: A polynomial: coefficients by monomial.  The empty monomial is the constant term.  No coefficient is zero.
Terms = dict[Monomial, int]


class NotSymbolic(Exception):
    """Raised by code that needs a concrete number, for which no formula can stand."""


#: The comparisons that code relied on: (formula, comparison with zero, outcome).
Conditions = dict[tuple[str, str, bool], None]


class _ThreadConditions(threading.local):
    """The conditions of every open `watched` block of this thread, and the number of blocks with `with_equality`."""

    def __init__(self) -> None:
        self.open: list[Conditions] = []
        self.with_equality = 0


_watching = _ThreadConditions()


@contextmanager
def watched(with_equality: bool = False) -> Iterator[Conditions]:
    """Collect the conditions on which comparisons in the block rely.

    with_equality   record comparisons by == and !=, too: for code outside the compiler, which may treat a particular
                    number of at least `LEAST` specially, as the compiler never does
    """
    found: Conditions = {}
    before = _watching.open, _watching.with_equality
    try:
        _watching.open, _watching.with_equality = [*before[0], found], before[1] + with_equality
        yield found
    finally:
        _watching.open, _watching.with_equality = before


def is_watched() -> bool:
    """True while conditions are collected in this thread."""
    return bool(_watching.open)


def _of_integers(compute: Callable[[Any, Any], Any]) -> Any:
    """A method for an operator, which returns NotImplemented if the other operand is not an integer."""
    return lambda self, other: compute(self, other) if isinstance(other, int) else NotImplemented


def _ordering(comparison: str) -> Any:
    """The method for an order comparison such as "<"."""
    return lambda self, other: _compare(self, other, comparison)


class Symbol(int):
    """A symbolic integer; see the head of the file.  Made by `symbol`, and by arithmetic."""

    terms: Terms

    # Symbols of equal value and different formulas are unequal, so the hash includes the formula.
    def __hash__(self) -> int:
        return hash((int(self), frozenset(self.terms.items())))  # differs from the hash of the plain number

    def __eq__(self, other: object) -> bool:
        is_same = type(other) is Symbol and int(other) == int(self) and other.terms == self.terms
        if _watching.with_equality and not is_same:
            _note_difference(self, other)
        return is_same

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        return formula(self)

    def __bool__(self) -> bool:
        return _note_comparison(self, "!=", int.__bool__(self))

    __lt__, __le__, __gt__, __ge__ = map(_ordering, ("<", "<=", ">", ">="))
    __add__ = __radd__ = _of_integers(lambda a, b: _sum(a, b))
    __sub__ = _of_integers(lambda a, b: _sum(a, _product(b, -1)))
    __rsub__ = _of_integers(lambda a, b: _sum(b, _product(a, -1)))
    __mul__ = __rmul__ = _of_integers(lambda a, b: _product(a, b))
    __floordiv__ = _of_integers(lambda a, b: _quotient(a, b))
    __rfloordiv__ = _of_integers(lambda a, b: _quotient(b, a))
    __mod__ = _of_integers(lambda a, b: a - a // b * b)
    __rmod__ = _of_integers(lambda a, b: b - b // a * a)

    def __neg__(self) -> Any:
        return _product(self, -1)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _refuse(self, *_: Any) -> Any:
        raise NotSymbolic(f"the very number of {formula(self)} is asked for")

    def __format__(self, spec: str) -> str:
        return self.__str__() if not spec else self._refuse()

    def __str__(self) -> str:
        return formula(self) if _watching.with_equality else self._refuse()  # code outside the compiler prints messages

    bit_length = bit_count = _refuse
    __index__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refuse
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _refuse
    __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __invert__ = _refuse


class SymbolicFloat(float):
    """A symbol converted to a float, such as the count of a mean.  Arithmetic on it gives plain floats."""

    count: Symbol

    def __repr__(self) -> str:
        return f"float({self.count!r})"


def as_float(x: int) -> float:
    """The number as a float; a `SymbolicFloat` for a symbol."""
    if type(x) is not Symbol:
        return float(x)
    found = SymbolicFloat(x)
    found.count = x
    return found


def as_index(x: Any) -> int:
    """`operator.index(x)`, or x itself if it is a symbol."""
    return x if type(x) is Symbol else operator.index(x)


def symbol(name: str, example: int) -> Symbol:
    """A symbol that stands for any number of at least `LEAST`; its value is the example."""
    return _from_terms(example, {(name,): 1})


def _from_terms(value: int, terms: Terms) -> Any:
    if not terms or (len(terms) == 1 and () in terms):
        return value
    found = Symbol(value)
    found.terms = terms
    return found


def _terms(x: int) -> Terms:
    return x.terms if type(x) is Symbol else {(): int(x)} if x else {}


def _sum(a: int, b: int) -> Any:
    terms = dict(_terms(a))
    for monomial, factor in _terms(b).items():
        both = terms.pop(monomial, 0) + factor
        if both:
            terms[monomial] = both
    return _from_terms(int(a) + int(b), terms)


def _product(a: int, b: int) -> Any:
    terms: Terms = {}
    for left, p in _terms(a).items():
        for right, q in _terms(b).items():
            monomial = tuple(sorted(left + right))
            both = terms.pop(monomial, 0) + p * q
            if both:
                terms[monomial] = both
    return _from_terms(int(a) * int(b), terms)


def _quotient(a: int, b: int) -> Any:
    """a // b: a polynomial if b divides every term of a; else a new factor that holds the quotient as text."""
    value, above, below = int(a) // int(b), _terms(a), _terms(b)
    if len(below) == 1:
        ((monomial, factor),) = below.items()
        terms: Terms = {}
        for m, c in above.items():
            rest = _without(m, monomial)
            if rest is None or c % factor:
                break
            terms[rest] = c // factor
        else:
            return _from_terms(value, terms)
    if all(c < 0 for c in above.values()):  # as in -(-a // b), the quotient rounded up
        a = _product(a, -1)
        return _factor(value, f"-(-({_text_of(a)}) // ({_text_of(b)}))", -1, 1 if _is_above(a, 0) else 0, b)
    least = _lower_bound(above) // b if type(b) is int else 0
    return _factor(value, f"(({_text_of(a)}) // ({_text_of(b)}))", 1, least if _is_above(a, -1) else -math.inf, b)


def _is_above(x: int, least: int) -> bool:
    return _lower_bound(_terms(x)) > least


def _factor(value: int, text: str, sign: int, least: float, below: int) -> Any:
    """A quotient as a factor, with the lower bound `least` if the divisor `below` is surely positive."""
    return _from_terms(value, {(_Factor(text, least if _is_above(below, 0) else -math.inf),): sign})


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def _text_of(x: int) -> str:
    parts = [" * ".join([str(c), *m]) for m, c in sorted(_terms(x).items())]
    return " + ".join(parts) or "0"


def formula(x: int) -> str:
    """The number as a Python expression in the names of its symbols."""
    return _text_of(x) if type(x) is Symbol else repr(int(x))


def _lower_bound(terms: Terms) -> float:
    """A lower bound of the polynomial, for any values of the symbols."""
    shared = set.intersection(*map(set, terms)) if len(terms) > 1 else ()
    for common in shared:
        # n m - n is bounded as n (m - 1).
        least = _least(common)
        rest = _lower_bound({n: c for m, c in terms.items() if (n := _without(m, (common,))) is not None})
        return rest * least if rest >= 0 and least >= 0 else -math.inf
    total: float = 0
    for monomial, factor in terms.items():
        leasts = [_least(f) for f in monomial]
        if monomial and (factor < 0 or min(leasts) < 0):
            return -math.inf
        total += factor * math.prod(leasts)
    return total


def _note_difference(a: Symbol, b: Any) -> None:
    """Record the condition that a is not b, if b is a whole number."""
    if hasattr(b, "__int__") and b == b // 1:
        difference = _sum(a, _product(b if type(b) is Symbol else int(b), -1))
        if type(difference) is Symbol:
            _note_comparison(difference, "!=", True)


_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne}


def _note_comparison(difference: Symbol, comparison: str, outcome: bool) -> bool:
    """Return the outcome of a comparison with 0, after recording it as a condition unless it is certain."""
    low, high = _lower_bound(difference.terms), -_lower_bound({m: -c for m, c in difference.terms.items()})
    holds = _HOLDS[comparison]
    # If 0 is not inside the interval [low, high], its two ends decide the comparison.
    is_certain = (low >= 0 or high <= 0) and holds(low, 0) == holds(high, 0)
    if not is_certain:
        for found in _watching.open:
            found[_text_of(difference), comparison, outcome] = None
    return outcome


def _compare(a: Symbol, b: Any, comparison: str) -> bool:
    if isinstance(b, float):
        if math.isinf(b):
            return _HOLDS[comparison](0, b)
        raise NotSymbolic(f"{formula(a)} is compared with {b}")
    if not isinstance(b, int):
        return NotImplemented
    difference = _sum(a, _product(b, -1))
    outcome = _HOLDS[comparison](int(a), int(b))
    return _note_comparison(difference, comparison, outcome) if type(difference) is Symbol else outcome


def typical(x: int) -> int:
    """The number, or the example of a symbol: for choices where every outcome is right, so no condition is needed."""
    return int(x) if type(x) is Symbol else x


def is_sure(a: int, b: int) -> bool:
    """True if a <= b for all values of the symbols; False if that depends on them.  Records no condition."""
    if type(a) is not Symbol and type(b) is not Symbol:
        return a <= b
    terms = _terms(_sum(b, _product(a, -1)))
    return not terms or _lower_bound(terms) >= 0


def larger(a: int, b: int) -> int:
    """The larger of two valid lower bounds, by the examples of symbols: since both are valid, either is right."""
    return a if typical(a) >= typical(b) else b


def smaller(a: int, b: int) -> int:
    """The smaller of two valid upper bounds, by the examples of symbols: since both are valid, either is right."""
    return a if typical(a) <= typical(b) else b


def symbolic_max(*numbers: int) -> int:
    """The largest number; a new factor with the text `max(...)` if the symbols decide which one that is."""
    first, *others = numbers
    for x in others:
        if is_sure(first, x):
            first = x
        elif not is_sure(x, first):
            least = max(_lower_bound(_terms(first)), _lower_bound(_terms(x)))
            factor = _Factor(f"max({_text_of(first)}, {_text_of(x)})", least)
            first = _from_terms(max(int(first), int(x)), {(factor,): 1})
    return first


def as_int(x: float) -> int:
    """The float as an integer: the symbol of a `SymbolicFloat`, else int(x)."""
    return x.count if type(x) is SymbolicFloat else int(x)


def numbers_function(numbers: Sequence[int], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """A function from values of the symbols with these names to the values of all the numbers."""
    return _function(f"({', '.join([*map(formula, numbers), ''])})" if numbers else "()", names)


def conditions_function(conditions: Conditions, names: Sequence[str]) -> Callable[..., bool]:
    """A function from values of the symbols with these names to True if all conditions hold."""
    return _function(conditions_text(conditions), names)


def conditions_text(conditions: Conditions) -> str:
    """A Python expression that is true if all conditions hold."""
    parts = [f"(({text}) {comparison} 0) is {outcome}" for text, comparison, outcome in conditions]
    return " and ".join(parts) or "True"


def _function(expression: str, names: Sequence[str]) -> Any:
    return compile_function("f", f"def f({', '.join(names)}): return {expression}", {"__name__": __name__})
