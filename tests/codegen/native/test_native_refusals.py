"""Source that is not in the language is refused with file, line, function, reason and expression."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from typed_programs import compiled

from codegen.native import (
    NotNative,
    Struct,
    Translation,
    atomic_add,
    atomic_load,
    extern,
    f64,
    held,
    i32,
    i64,
    local,
    moved,
    native,
    own,
    ptr,
    row,
    select,
    shuffle,
    u8,
    u64,
    u128,
    vector,
    void,
)


class Item(Struct):
    small: u8
    value: ptr
    number: i64
    is_set: bool
    next: ptr[Item]


class Owner(Struct):
    thing: own


REFUSED: list[tuple[Any, str, str]] = []


def refused(why, expression):
    def keep(function):
        REFUSED.append((function, why, expression))

    return keep


@refused("u64 and i64: convert one", "a + b")
@native
def mixed(a: u64, b: i64) -> u64:
    return u64(a + b)


@refused("ptr[Item] and u64: convert one", "item is a")
@native
def pointer_and_number(item: ptr[Item], a: u64) -> bool:
    return item is a


@refused("i64 where i32 is asked", "return a")
@native
def narrowed(a: i64) -> i32:
    return a


@refused("300 does not fit into u8", "item.small = 300")
@native
def too_large(item: ptr[Item]) -> void:
    item.small = 300


@refused("f64 where i64 is asked", "item.number = x")
@native
def cut(item: ptr[Item], x: f64) -> void:
    item.number = x


@refused("1.5 does not fit into i64", "1.5")
@native
def literal() -> i64:
    return 1.5


@refused("which number? say i64(...)", "n = 0")
@native
def untyped() -> void:
    n = 0
    _ = n


@refused("which type? say i64(...)", "1 if flag else 2")
@native
def unknown_choice(flag: bool) -> void:
    x = 1 if flag else 2
    _ = x


@refused("ptr[Item] has no field nmu", "item.nmu")
@native
def misspelled(item: ptr[Item]) -> i64:
    return item.nmu


@refused("i64 has no parts", "n.parts")
@native
def no_parts(n: i64) -> i64:
    return n.parts


@refused("the name nothing is not known", "nothing")
@native
def unknown() -> i64:
    return nothing  # noqa: F821  unknown on purpose


@refused("the truth of f64: compare it", "x")
@native
def fraction_as_truth(x: f64) -> i64:
    return i64(1) if x else i64(2)


@refused("not an operation of f64", "x & x")
@native
def bits_of_a_fraction(x: f64) -> f64:
    return x & x


@refused("not an operation of i64", "n / n")
@native
def true_division(n: i64) -> i64:
    return n / n


@refused("not an operation of pointers", "p * 2")
@native
def pointer_times(p: ptr[Item]) -> ptr[Item]:
    return p * 2


@refused("one comparison at a time, of numbers or pointers", "0 < n < 3")
@native
def chained(n: i64) -> bool:
    return 0 < n < 3


@refused("2 arguments are asked, 1 are given", "mixed(u64(n))")
@native
def few_arguments(n: i64) -> u64:
    return mixed_(u64(n))


@native
def mixed_(a: u64, b: u64) -> u64:
    return a + b


REFUSED[-1] = (REFUSED[-1][0], REFUSED[-1][1], "mixed_(u64(n))")


@refused("arguments by keyword are not in the language", "mixed_(a=n, b=n)")
@native
def by_keyword(n: u64) -> u64:
    return mixed_(a=n, b=n)


@refused("a loop is over a range, without else", "for i in items:")
@native
def over_a_list(items: ptr[i64]) -> void:
    for i in items:  # noqa: B007  refused
        pass


@refused("a step of zero", "for i in range(0, n, 0):")
@native
def standing_still(n: i64) -> void:
    for i in range(0, n, 0):  # noqa: B007  refused
        pass


@refused("With is not in the language", "with n:")
@native
def with_statement(n: i64) -> void:
    with n:
        pass


@refused("List is not in the language", "[n]")
@native
def list_of(n: i64) -> i64:
    return [n]


@refused("not a native function", "print(n)")
@native
def printing(n: i64) -> void:
    print(n)


@refused("the end of the function without a result", "if n > 0:")
@native
def no_result(n: i64) -> i64:
    if n > 0:
        return n


@refused("no atomic operation of bool", "atomic_load(item, 'is_set')")
@native
def atomic_truth(item: ptr[Item]) -> void:
    atomic_load(item, "is_set")


@refused(
    "3 arguments and one of monotonic, acquire, release, acq_rel, seq_cst are asked",
    "atomic_add(item, 'number', 1, 'relaxed')",
)
@native
def strange_ordering(item: ptr[Item]) -> void:
    atomic_add(item, "number", 1, "relaxed")


@refused("a number that is not known while compiling: not in loops", "local(i64, n)")
@native
def growing_stack(n: i64) -> void:
    for _ in range(n):
        room = local(i64, n)
        room[0] = 1


@refused("vector[bool, 2], vector[f64, 2], vector[f64, 4] do not fit", "select(a < a, a, b)")
@native
def lanes(x: f64) -> f64:
    a = vector[f64, 2](x)
    b = vector[f64, 4](x)
    return select(a < a, a, b)[0]


@refused("vector[f64, 2] and vector[f64, 2] have no lanes (0, 4)", "shuffle(a, a, (0, 4))")
@native
def other_lanes(x: f64) -> f64:
    a = vector[f64, 2](x)
    return shuffle(a, a, (0, 4))[0]


TURNS = (1, 2)


@refused("no way out of a loop over constants", "break")
@native
def left_early(n: i64) -> i64:
    for turn in TURNS:
        if n == turn:
            break
    return n


@refused("a loop over constants, without else and with names of its own", "for n in TURNS:")
@native
def turned_into_a_local(n: i64) -> i64:
    for n in TURNS:  # noqa: B007  refused
        pass
    return n


@refused("only a new local that is `own` says its type, and has a value", "x: i64 = n")
@native
def annotated(n: i64) -> i64:
    x: i64 = n
    return x


@native
def room(n: i64) -> ptr[i64]:
    return ptr[i64](n)


@refused("x has no value on every way to here", "x")
@native
def unset_on_one_way(n: i64) -> i64:
    if n > 0:
        x = n
    return x


@refused("x has no value on every way to here", "x")
@native
def unset_without_a_turn(n: i64) -> i64:
    for i in range(n):
        x = i
    return x


@refused("the target would be called twice", "room(n)[0] += 1")
@native
def called_twice(n: i64) -> void:
    room(n)[0] += 1


new_list = extern("PyList_New", own, i64)
append = extern("PyList_Append", i32, ptr, ptr)
take = extern("PyTuple_SetItem", void, ptr, i64, own)
get = extern("PyTuple_GetItem", ptr, ptr, i64)


@refused("x has no value on every way to here", "x")
@native
def used_after_it_was_moved(t: ptr) -> own:
    x: own = new_list(0)
    take(t, 0, x)
    return x


@refused("x has no value on every way to here", "x")
@native
def moved_on_one_way(t: ptr, n: i64) -> i32:
    x: own = new_list(0)
    if n > 0:
        take(t, 0, moved(x))
    return append(t, x)


@refused("x has no value in the next turn of the loop: it is moved here", "x")
@native
def moved_in_a_loop(t: ptr, n: i64) -> void:
    x: own = new_list(0)
    for i in range(n):
        take(t, i, x)


@refused("x has no value in the next turn of the loop: it is moved here", "x")
@native
def moved_before_the_next_turn(t: ptr, n: i64) -> void:
    x: own = new_list(0)
    while n > 0:
        n -= 1
        if n > 5:
            take(t, n, x)
            continue
        _ = append(t, x)


@refused("an `own` local or place is asked", "moved(t)")
@native
def moved_by_no_owner(t: ptr) -> own:
    return moved(t)


@refused("an `own` local or place is asked", "moved(item.value)")
@native
def moved_out_of_a_plain_place(item: ptr[Item]) -> own:
    return moved(item.value)


@refused("the reference is somebody else's: say held(...)", "t")
@native
def chosen_reference(t: ptr, n: i64) -> own:
    x: own = new_list(0)
    return x if n > 0 else t


@refused("the reference is given back here: the result is no `own`", "return x")
@native
def given_back_too_early(n: i64) -> ptr:
    x: own = new_list(n)
    return x


@refused("the reference is given back here: the result is no `own`", "return x if n > 0 else t")
@native
def perhaps_given_back_too_early(t: ptr, n: i64) -> ptr:
    x: own = new_list(n)
    return x if n > 0 else t


@refused("the reference is lost: give it to an `own`", "new_list(n)")
@native
def dropped(n: i64) -> void:
    new_list(n)


@refused("the reference is lost: give it to an `own`", "new_list(n)")
@native
def kept_by_a_plain_local(n: i64) -> void:
    x = new_list(n)
    _ = x


@refused("the reference is lost: give it to an `own`", "new_list(n)")
@native
def given_to_a_plain_parameter(t: ptr, n: i64) -> i32:
    return append(t, new_list(n))


@refused("the reference is lost: give it to an `own`", "new_list(n)")
@native
def only_compared(n: i64) -> i64:
    if new_list(n) is None:
        return 1
    return 0


@refused("the reference is lost: give it to an `own`", "new_list(n)")
@native
def kept_by_a_plain_place(item: ptr[Item], n: i64) -> void:
    item.value = new_list(n)


@refused("the reference is lost: give it to an `own`", "held(t)")
@native
def held_by_nobody(t: ptr) -> ptr:
    return held(t)


@refused("the reference is somebody else's: say held(...)", "get(t, 0)")
@native
def borrowed_by_a_local(t: ptr) -> void:
    x: own = get(t, 0)
    _ = x


@refused("the reference is somebody else's: say held(...)", "t")
@native
def borrowed_by_a_parameter(t: ptr) -> void:
    take(t, 0, t)


@refused("the reference is somebody else's: say held(...)", "owner.thing = t")
@native
def borrowed_by_a_place(owner: ptr[Owner], t: ptr) -> void:
    owner.thing = t


@refused("the reference is somebody else's: say held(...)", "owner.thing")
@native
def borrowed_of_a_place(owner: ptr[Owner]) -> own:
    return owner.thing


@refused("the reference is somebody else's: say held(...)", "t")
@native
def borrowed_by_a_row(t: ptr, n: i64) -> ptr:
    return get(row(new_list(n), t)[0], 0)


@refused("`own` places: not in loops", "row(new_list(n))")
@native
def rows_in_a_loop(n: i64) -> void:
    for _i in range(n):
        made = row(new_list(n))
        made[0] = None


@refused("`own` places: not in loops", "local(own, 4)")
@native
def places_in_a_loop(n: i64) -> void:
    for _i in range(n):
        made = local(own, 4)
        made[0] = None


@refused("nobody looks at the result", "append(t, t)")
@native
def unseen_failure(t: ptr) -> void:
    append(t, t)


@refused("nobody looks at the result", "room(n)")
@native
def unseen_result(n: i64) -> void:
    room(n)


@refused("only a new local that is `own` says its type, and has a value", "x: own = new_list(1)")
@native
def owner_that_was_none(t: ptr) -> void:
    x = t
    x: own = new_list(1)  # noqa: F841  on purpose


@pytest.mark.parametrize("function, why, expression", REFUSED, ids=[f.name for f, _, _ in REFUSED])
def test_a_refusal_names_file_line_reason_and_expression(function, why, expression):
    with pytest.raises(NotNative) as caught:
        Translation().text([function])
    message = str(caught.value)
    nodes = [n for n in ast.walk(function.tree) if isinstance(n, (ast.stmt, ast.expr))]
    places = [n.lineno for n in nodes if ast.unparse(n).partition("\n")[0] == expression]
    where, _, rest = message.partition(f": in {function.name}: ")
    file, _, line = where.rpartition(":")
    assert file == __file__ and int(line) in places
    first, _, second = rest.partition("\n")
    assert first == why
    assert second.strip() == expression


def test_a_local_that_has_a_value_on_every_way_is_used():
    @native
    def every_way(n: i64) -> i64:
        if n > 0:
            x = n
        elif n < -5:
            return n
        else:
            x = n * 2
        while True:
            y = x + 1
            if y > 3:
                break
            x = y
        return y

    library = compiled([every_way])
    assert [library.every_way(n) for n in (5, -9, 0)] == [every_way(n) for n in (5, -9, 0)]


def test_what_python_cannot_give_is_no_argument_of_a_builtin():
    @native
    def wide(a: u128) -> u64:
        return u64(a)

    @native
    def owner(a: own) -> own:
        return a

    with pytest.raises(NotNative, match="in owner: a: own is no argument of a builtin"):
        Translation().text([], builtins=[owner])
    with pytest.raises(NotNative, match=r"test_native_refusals.py: in wide: a: u128 is no argument of a builtin"):
        Translation().text([], builtins=[wide])
