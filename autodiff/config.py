"""Settings that a program may change while it runs (public as `ad.config`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from codegen import blas, compiler
from codegen.forks import in_child
from codegen.lazily import later
from codegen.modes import is_set, modes
from codegen.runtime import threads

from .mode import look_closer

debugged = later("codegen.runtime.debugged")


class _Flag:
    """A setting that is True or False.  The compiler's settings are kept in `modes`, the others in the Config.

    change   a function of (config, name, value) that is called before a new value is set; it may raise an error
    """

    def __init__(self, doc: str, change: Callable[[Config, str, bool], object] = lambda *_: None) -> None:
        self.__doc__, self._change = doc, change

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, config: Config | None, owner: object = None) -> bool:
        if config is None:
            return self  # type: ignore[return-value]  # of the class
        return bool(getattr(modes, self.name) if hasattr(modes, self.name) else config._flags[self.name])

    def __set__(self, config: Config, flag: bool) -> None:
        if flag not in (True, False):
            raise ValueError(f"config.{self.name} is True or False, not {flag!r}")
        self._change(config, self.name, bool(flag))
        if hasattr(modes, self.name):
            setattr(modes, self.name, bool(flag))
        else:
            config._flags[self.name] = bool(flag)
        look_closer(config.eager, modes.debug_info)


def _compile_anew(config: Config, name: str, flag: bool) -> None:
    if flag and name == "debug_info":
        debugged.check()
    if flag != getattr(modes, name):
        compiler.set_mode(name, flag)
        config.forget()


def _become_deterministic(config: Config, _name: str, flag: bool) -> None:
    if flag and not blas.is_settable():
        raise ValueError(
            "config.deterministic: the threads of the BLAS that NumPy uses here cannot be set\n"
            "  start the program with one thread of it instead: OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1, ..."
        )
    config.settle_patience(flag)
    if flag and not modes.deterministic:
        config.forget()  # code of any size sums in another order


class Config:
    """The settings, each with the environment variable that sets it at the start.

    eager       True: every operation is evaluated at once by NumPy, to step through a program with a debugger
                (AUTODIFF_EAGER=1)
    patience    the most programs that a turn of a loop may have for the loop to be noticed (AUTODIFF_PATIENCE, 8).
                NumPy evaluates a recorded program first.  The program is compiled at its second run in a row, or its
                third in a loop, if 3,000 runs would pay for that, or when evaluating it has taken as long as compiling
                would.  0: every program is compiled at once, as under `ad.jit`
    threads     the number of threads that share a large loop (AUTODIFF_THREADS; else OMP_NUM_THREADS; else the number
                of processors that this thread may use, also when that changes; the last two are never more than the
                quota of the cgroup); results have the same bits for any number
    fast_math   True: additions and multiplications of a program may be done in another order, divisions by a number
                that a loop does not change become multiplications by its reciprocal, and the sign of zeros is free
                (AUTODIFF_FAST_MATH=1).  nan and infinities are kept, except where algebra cancels an overflow;
                functions, sums and products of matrices stay as exact as they are.  In forty random programs of twelve
                operations the median of the largest errors was 3.2 ulp, 2.5 without the setting; in programs with
                cancellation a hundred times as much
    flush_subnormals    True: compiled code treats numbers below the smallest normal one (1.2e-38 of float32, 2.2e-308
                of float64) as zeros, as operands and as results (AUTODIFF_FLUSH_SUBNORMALS=1).  An Intel processor
                takes some 150 cycles for an addition or product with such a number, so loops in which gradients
                vanish become fast.  Operations that only move numbers may keep them, and NumPy keeps them: in eager
                mode, in host rules, in decompositions, and where it evaluates a new program.  The thread's own setting
                is restored when a call ends, and while handlers of signals run
    deterministic   True: decompositions and large systems, which NumPy's LAPACK computes, have the same bits for any
                number of threads, since its BLAS runs on one thread; and every program is compiled at once, so the
                first call has the bits of all others (AUTODIFF_DETERMINISTIC=1).  Compiled code, products included,
                has the same bits for any number of threads in any case
    debug_info  True: kernels are compiled with the lines of your program, for gdb and perf (AUTODIFF_DEBUG_INFO=1).
                The kernels are then shared libraries in temporary folders autodiff-PID-..., which stay when the
                process ends.  Results are the same; compiling and recording take longer.  Linux, with the program ld

    full_tracebacks     True: the traceback of an error also shows this library's frames, which are otherwise left out
                between those of the user's program (AUTODIFF_FULL_TRACEBACKS=1)

    A change of `fast_math` or `debug_info` drops all compiled programs: set these before other threads compute.
    A change of `flush_subnormals` compiles nothing, and takes effect at the next call of each thread.

    >>> import autodiff as ad
    >>> ad.config.eager = True
    >>> ad.exp(0.0)  # computed by NumPy, at once
    f64[] 1.0
    >>> ad.config.eager = False
    """

    __slots__ = ("_flags", "_patience", "forgetting", "patience_now", "transforming")

    patience_now: int
    _patience: int | None

    # For the library itself:
    #
    # patience_now   the patience in effect: 0 if `deterministic` is set
    # transforming   functions that are being differentiated, in any thread: functions that they call get tensors

    def __init__(self) -> None:
        self.transforming: dict[object, int] = {}
        self.forgetting: list[Callable[[], object]] = []  # functions that drop compiled programs
        self._flags = {name: is_set(f"AUTODIFF_{name.upper()}") for name in ("eager", "full_tracebacks")}
        # A value that is no number raises an error at its first use, so that the import does not fail.
        given = os.environ.get("AUTODIFF_PATIENCE") or "8"
        self._patience = int(given) if given.isdecimal() and int(given) <= 64 else None
        self.deterministic = modes.deterministic
        self.debug_info = modes.debug_info

    @property
    def threads(self) -> int:
        """The number of threads that share a large loop, the caller's included."""
        return threads.threads()

    @threads.setter
    def threads(self, count: int) -> None:
        threads.set_threads(count)

    eager = _Flag("True if every operation is evaluated at once.")
    full_tracebacks = _Flag("True if tracebacks show this library's frames.")
    flush_subnormals = _Flag("True if compiled code takes subnormal numbers for zeros.")
    fast_math = _Flag("True if arithmetic may be put in another order.", _compile_anew)
    debug_info = _Flag("True if kernels are compiled with the user's lines.", _compile_anew)
    deterministic = _Flag("True if NumPy's results have the same bits on any number of threads.", _become_deterministic)

    @property
    def patience(self) -> int:
        """The most programs in a turn of a loop for the loop to be noticed; 0: every program is compiled at once."""
        return self.patience_now

    @patience.setter
    def patience(self, count: int) -> None:
        if not isinstance(count, int) or not 0 <= count <= 64:
            raise ValueError(f"config.patience is a number from 0 to 64, not {count!r}")
        self._patience = count
        self.settle_patience(modes.deterministic)

    def settle_patience(self, is_deterministic: bool) -> None:
        """Set `patience_now` after a change of `patience` or `deterministic`."""
        self.patience_now = 0
        if not is_deterministic:
            if self._patience is None:
                del self.patience_now
            else:
                self.patience_now = self._patience

    def __getattr__(self, name: str) -> int:
        if name != "patience_now":
            raise AttributeError(f"'Config' object has no attribute {name!r}", name=name, obj=self)
        given = os.environ.get("AUTODIFF_PATIENCE")
        raise ValueError(f"AUTODIFF_PATIENCE should be a number from 0 to 64, got {given!r}")

    def forget(self) -> None:
        """Drop all compiled programs, those of `jit` functions too."""
        for forget in self.forgetting:
            forget()

    def forget_other_threads(self) -> None:
        """Remove the entries of other threads from `transforming`: a forked child has only this thread."""
        mine = threading.get_ident()
        for mark in [mark for mark, thread in self.transforming.items() if thread != mine]:
            del self.transforming[mark]  # machine code knows this dict

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(Config, name):
            told = f"config has no setting {name!r}: there are {', '.join(_SETTINGS)}"
            raise AttributeError(told, name=name, obj=self)
        super().__setattr__(name, value)

    def __reduce__(self) -> str:
        return "config"  # each process has one

    def __repr__(self) -> str:
        return f"config({', '.join([f'{name}={getattr(self, name)}' for name in _SETTINGS])})"


#: The settings, in the order in which `repr` shows them.
_SETTINGS = (
    "eager", "patience", "threads", "fast_math", "flush_subnormals", "deterministic", "debug_info", "full_tracebacks",
)
config = Config()
in_child(config.forget_other_threads)
threads.announce()
