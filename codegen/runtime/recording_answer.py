"""Asks of recordings that are known, answered by machine code (native Python): walk, look up, run, commit.

    ask(...)               the key of an ask is looked up; where there is an answer, its plan is run
    answer_value(...)      the same for one pending value, as the recorder calls it

`recording_keys` has the walk and the key, `recording_run` runs the plan.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, local, native, obj, ptr, u64, unlikely
from . import recording_objects as py
from .recording_entries import walk
from .recording_hash import Digest
from .recording_keys import VALUE, key_object, list_of_found, walked
from .recording_run import AnswerBlock, run
from .recording_structs import CLOCK, RawNode, RawRecording, tape

__all__ = ["answer_value", "ask"]


@native
def looked_up(key: ptr) -> ptr:
    """The valid answer that is known for a key, as `run` takes it; null for none."""
    entry = py.dict_item(tape.plans.entries, key)
    if entry is None:
        return None
    found = py.list_item(entry, 0)
    is_sized = ptr[py.RawObject](found).type is tape.tuple_type
    answer = py.tuple_item(found, 0) if is_sized else found
    if ptr[py.RawObject](answer).type is not tape.answer_type:
        return None
    if py.list_item(entry, 1) is not tape.plans.clock:  # it is the latest used now
        clock = py.int_of(py.int_value(tape.plans.clock) + 1)
        if clock is not None:
            py.inc(clock)
            py.exchange(ptr[ptr](tape.plans) + CLOCK, clock)
            py.set_list(entry, 1, clock)
    return found if ptr[AnswerBlock](py.bytes_at(answer)[0]).valid[0] is tape.true else ptr(None)


@native
def ask(
    purpose: u64, now: borrowed, small: borrowed, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed,
    tracks: bool, is_released: bool, given: borrowed,
) -> obj:
    """Answer an ask if it is known.

    now      the recording that ends with it; None: none does
    given    None; or what Python has looked up: see `run`

    Gives True; of gradients that are asked for [a plan's results, the answer]; of leaves with hooks that are due these;
    [key, [], calls] where keys of calls belong to the key; None where it is not known.
    """
    d = local(Digest, 1)[0]
    walk.held = 0
    if not walked(d, purpose, None, ptr(small), ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    if ptr(given) is not tape.none:
        told = py.bytes_at(py.tuple_item(ptr(given), 1))
        a = ptr[AnswerBlock](py.bytes_at(py.tuple_item(ptr(given), 0))[0])
        if told[0] != d.low or told[1] != d.high or a.valid[0] is not tape.true:
            return borrowed(tape.none)
        return run(ptr(given), d, purpose, ptr(now), is_released, None)
    key = key_object(d)
    if key is None:
        return py.failed()
    known = looked_up(key)
    if unlikely(walk.n_calls > 0):
        if known is None:
            return py.object_of(list_of_found(walk.calls, walk.n_calls, key, 0))
        return run(known, d, purpose, ptr(now), is_released, key)
    py.dec(key)
    if known is None:
        return borrowed(tape.none)
    return run(known, d, purpose, ptr(now), is_released, None)


@native
def answer_value(now: ptr[RawRecording], node: ptr[RawNode], tracks: bool) -> obj:
    """Compute a pending value if that is known: True or None."""
    d = local(Digest, 1)[0]
    known = ptr(None)
    walk.held = 0
    if walked(d, VALUE, node, now.small, tape.empty, tape.empty, tape.empty, tape.empty, tracks):
        key = key_object(d)
        if key is not None:
            known = looked_up(key)
            py.dec(key)
        else:
            py.clear_error()
    if known is None:
        return borrowed(tape.none)
    return run(known, d, VALUE, ptr(now), False, None)
