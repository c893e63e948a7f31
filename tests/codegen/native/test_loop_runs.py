"""Loops of bodies give in machine code what their source gives as plain Python, on random tables."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from codegen.modes import FLUSHING, modes
from codegen.native import Translation, extern, i64, ptr, u8
from codegen.native.structs import Pointer
from codegen.runtime import engine, loop_runs
from codegen.runtime.loop_runs import BodyWords, KeptWords, LoopWords, MoveWords, StateWords, WhileWords
from codegen.runtime.run_steps import spent

WIDTH = 4  # bytes of a state and of an element
BYTES = 96  # of a buffer


class Plain:
    """Memory of stand-ins."""

    def buffer(self, data):
        return Pointer([u8(b) for b in data], 0, u8)

    def bytes_of(self, buffer):
        return bytes(int(b) for b in buffer.items)

    def pointers(self, buffers):
        return Pointer(list(buffers), 0, None)

    def struct(self, cls, **values):
        found = cls()
        for name, value in values.items():
            if name in ("body", "condition", "step"):
                found.__dict__[name] = value
            else:
                setattr(found, name, value)
        return found

    def table(self, cls, rows):
        return Pointer([self.struct(cls, **row) for row in rows], 0, cls)

    def read(self, slots, number):
        return [int(slots[number][j]) for j in range(WIDTH)]

    def write(self, slots, number, values):
        for j, value in enumerate(values):
            slots[number][j] = u8(value)


class Machine:
    """Memory as it is."""

    def __init__(self):
        self.kept = []

    def buffer(self, data):
        self.kept.append(np.frombuffer(bytes(data), np.uint8).copy())
        return self.kept[-1]

    def bytes_of(self, buffer):
        return buffer.tobytes()

    def pointers(self, buffers):
        self.kept.append((ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers]))
        return ctypes.addressof(self.kept[-1])

    def words(self, cls, values):
        found = []
        for name in cls.fields():
            value = values.get(name, 0)
            found += value if isinstance(value, list) else [value or 0]
        return found

    def struct(self, cls, **values):
        return self.words(cls, values)

    def table(self, cls, rows):
        return self.at([word for row in rows for word in self.words(cls, row)])

    def at(self, words):
        self.kept.append((ctypes.c_int64 * max(len(words), 1))(*words))
        return ctypes.addressof(self.kept[-1])

    def read(self, slots, number):
        at = ctypes.c_void_p.from_address(slots + 8 * number).value
        return list((ctypes.c_uint8 * WIDTH).from_address(at))

    def write(self, slots, number, values):
        at = ctypes.c_void_p.from_address(slots + 8 * number).value
        (ctypes.c_uint8 * WIDTH).from_address(at)[:] = values


def body(memory, states, runs, fails_at):
    """`run_steps`: each state from itself, the others and an element; an answer; may fail."""

    def run_steps(steps, count, slots, scratch):
        runs.append(count)
        if len(runs) == fails_at:
            return 9
        if count == 1:  # the condition: whether a state is small
            found = memory.read(slots, 0)
            memory.write(slots, states, [int(found[0] < 200 and len(runs) < 40)] + [0] * (WIDTH - 1))
            return 0
        element = memory.read(slots, 2 * states)
        values = [memory.read(slots, k) for k in range(states)]
        for k in range(states):
            mixed = [(3 * values[k][j] + values[k - 1][j] + element[j] + k) & 255 for j in range(WIDTH)]
            memory.write(slots, states + k, mixed)
        if count == 3:
            small = values[0][0] < 200 and len(runs) < 40
            memory.write(slots, 2 * states + 1, [int(small)] + [0] * (WIDTH - 1))
        return 0

    return run_steps


def loop_table(memory, rng, length, states, count, reverse):
    """The words of a loop: an element that moves, states in turns or kept."""
    start, stride = ((length - 1) * WIDTH, -WIDTH) if reverse else (0, WIDTH)
    moves = [{"slot": 2 * states, "buffer": 0, "offset": start, "stride": stride}]
    rows = []
    for k in range(states):
        keeps = rng.random() < 0.4
        following = {"next": 4 + k, "next_offset": 0, "stride": WIDTH, "mask": -1 if keeps else 1}
        first = {"first": 1, "first_offset": WIDTH * k, "bytes": WIDTH, "last": 2, "last_offset": WIDTH * k}
        rows.append({"read": k, "written": states + k, **first, **following})
    inside = memory.struct(
        BodyWords, count=count, slots=2 * states + 2, scratch=1, moves=memory.table(MoveWords, moves), move_count=1
    )
    table = memory.table(StateWords, rows)
    return {"length": length, "body": inside, "states": table, "state_count": states, "work": 1}


def buffers_of(memory, rng):
    return [memory.buffer(rng.randbytes(BYTES)) for _ in range(8)]


@pytest.fixture(scope="module")
def machine_code():
    """`run(name)` with what it calls by address, as plain functions of Python."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    now: list = [None]
    called = kind(lambda *given: now[0](*given))
    address = ctypes.cast(called, ctypes.c_void_p).value
    imports = {"given_steps": address, FLUSHING: modes.flushing_at}
    given = extern("given_steps", i64, ptr, i64, ptr, ptr)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loop_runs.run_body.scope.maps[1], "run_steps", given)
        texts = [Translation(checks=checks).text([loop_runs.run_loop, loop_runs.run_while]) for checks in (False, True)]
    codes = [engine.compile(text, imports) for text in texts]

    def run(number, name, run_steps, pointers, words):
        now[0] = run_steps
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(codes[number].address(name))
        return function(pointers, words)

    run.kept = called
    return run


@pytest.fixture
def plain(monkeypatch):
    """`run(name)` in plain Python, with stand-ins for other libraries."""

    def copy(to, from_, n, volatile):
        to, from_ = [p[0] if isinstance(p[0], Pointer) else p for p in (to, from_)]
        for j in range(n):
            to[j] = from_[j]

    def grown(old, n):
        items = [u8(0)] * int(n)
        if old is not None:
            items[: len(old.items)] = old.items
        return Pointer(items, 0, u8)

    spent.__dict__.clear()
    monkeypatch.setattr(loop_runs.copy_bytes, "plain", copy)
    monkeypatch.setattr(loop_runs.reallocated, "plain", grown)
    monkeypatch.setattr(loop_runs.free, "plain", lambda p: None)

    def run(name, run_steps, pointers, words):
        monkeypatch.setattr(loop_runs.run_steps, "plain", run_steps)
        return int(getattr(loop_runs, name)(pointers, words))

    return run


@pytest.mark.parametrize("seed", range(30))
def test_a_loop_of_known_length(plain, machine_code, seed):
    found = []
    for number in (-1, 0, 1):
        rng = random.Random(seed)
        memory = Plain() if number < 0 else Machine()
        buffers, runs = buffers_of(memory, rng), []
        length, states, fails_at = rng.choice([0, 1, 2, 3, 7]), rng.randrange(1, 4), rng.choice([0, 0, 2])
        table = loop_table(memory, rng, length, states, 2, rng.random() < 0.5)
        words = memory.struct(LoopWords, **table)
        steps, pointers = body(memory, states, runs, fails_at), memory.pointers(buffers)
        if number < 0:
            status = plain("run_loop", steps, pointers, words)
        else:
            status = machine_code(number, "run_loop", steps, pointers, memory.at(words))
        found.append((status, len(runs), [memory.bytes_of(b) for b in buffers]))
        assert len(runs) == (min(length, fails_at) if fails_at and fails_at <= length else length)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", range(30))
def test_a_loop_with_a_condition(plain, machine_code, seed):
    found = []
    for number in (-1, 0, 1):
        rng = random.Random(seed)
        memory = Plain() if number < 0 else Machine()
        buffers, runs = buffers_of(memory, rng), []
        states, fails_at = rng.randrange(1, 4), rng.choice([0, 0, 0, 1, 4])
        rows = [
            {
                "read": k, "written": states + k, "first": 1, "first_offset": WIDTH * k, "bytes": WIDTH,
                "offset": WIDTH * k, "last": rng.choice([-1, 2]), "last_offset": 20 + WIDTH * k,
            }
            for k in range(states)
        ]  # fmt: skip
        answer = {"buffer": 7, "offset": 60, "stride": 0}
        asked = [{"slot": states, **answer}]
        stepped = [{"slot": 2 * states, "buffer": 0, "offset": 8, "stride": 0}, {"slot": 2 * states + 1, **answer}]
        bodies = {
            name: memory.struct(
                BodyWords, count=count, slots=2 * states + 2, scratch=1, moves=memory.table(MoveWords, moves),
                move_count=len(moves),
            )
            for name, count, moves in (("condition", 1, asked), ("step", 3, stepped))
        }  # fmt: skip
        words = memory.struct(
            WhileWords, **bodies, states=memory.table(KeptWords, rows), state_count=states, bytes=WIDTH * states,
            workspace=7, records=0, answer=60, back=None, given=8, work=1,
        )  # fmt: skip
        steps, pointers = body(memory, states, runs, fails_at), memory.pointers(buffers)
        if number < 0:
            status = plain("run_while", steps, pointers, words)
        else:
            status = machine_code(number, "run_while", steps, pointers, memory.at(words))
        found.append((status, len(runs), [memory.bytes_of(b) for b in buffers]))
    assert found[0] == found[1] == found[2]
