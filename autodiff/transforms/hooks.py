"""Hooks: the user's functions that see, and may replace, gradients.

    on a tensor          hook(gradient) -> gradient or None, during the walk, in order of registration
    post-accumulate      hook(tensor), after every `.grad` is written

A hook runs at every backward.  Its operations are recorded and fused like any; an exception gets a note that names the
hook.  Rules and hooks may call backward themselves, to any depth: every `LEVELS` levels the work moves to a new thread,
which records into the same recording while the calling thread waits (`call_nested`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ..errors import DispatchError, GradientError, GradientShapeError, located, with_article
from ..frames import UserLine, user_line
from ..mode import MODE
from ..ops import as_tensor
from ..tape.modes import within
from ..tape.node import Leaf, RichNode, rich_node
from ..tape.record import DETACH, hooked, identity_of, record, state, use
from ..tensor import Tensor


class Hook:
    """A hook function, and the user's line that registered it."""

    __slots__ = ("function", "line")

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.line: UserLine | None = user_line()

    def __call__(self, argument: Any) -> Any:
        try:
            return call_nested(self.function, argument)
        except Exception as error:
            error.add_note(f"in {self}")
            raise

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"the hook {name!r} (registered at {self.line or 'an unknown place'})"


class Removable:
    """The handle that registering a hook returns: `remove()` removes the hook."""

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: dict[object, Hook], function: Callable) -> None:
        if not callable(function):
            got = with_article(type(function).__name__)
            raise DispatchError(located(f"a hook is a function, not {got}"))
        self._hooks = hooks
        self._key = object()
        hooks[self._key] = Hook(function)

    def remove(self) -> None:
        """Remove the hook.  A second call does nothing."""
        self._hooks.pop(self._key, None)


def register_hook(t: Tensor, fn: Callable) -> Removable:
    """Call `fn(gradient)` at every backward through this tensor; a result that is not None replaces the gradient.

    A hook on a leaf gets the sum over all uses.  Raises GradientError when the tensor does not require grad.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> hook = w.register_hook(lambda g: 10 * g)
    >>> (w * w).backward()
    >>> w.grad
    f64[] 60.0
    """
    node = t.node
    if not node.kind.out.requires_grad:
        raise GradientError(located(f"a hook needs a tensor that requires grad; this {t.aval} does not"))
    if node.leaf is not None:
        return Removable(node.leaf.hooks, fn)
    node = _with_room(t)
    if node.hooks is None:
        node.hooks = {}
    return Removable(node.hooks, fn)


def register_post_accumulate_grad_hook(t: Tensor, fn: Callable) -> Removable:
    """Call `fn(t)` after a backward has written `t.grad`.  Raises GradientError if t is no leaf that requires grad.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> hook = w.register_post_accumulate_grad_hook(lambda t: print("the gradient is", t.grad.item()))
    >>> (w * w).backward()
    the gradient is 6.0
    """
    identity = t.node.leaf
    if identity is None:
        raise GradientError(located(f"a post-accumulate hook needs a leaf that requires grad; this {t.aval} is none"))
    identity.owner = weakref.ref(t), weakref.ref(t.node)
    return Removable(identity.after, fn)


def retain_grad(t: Tensor) -> None:
    """Keep the gradient of a computed tensor in its `.grad`, as for a leaf.  On a leaf it does nothing.

    Raises GradientError when the tensor does not require grad, and inside a traced function, where the tensor stands
    for a step of many calls, or for many examples.

    >>> import autodiff as ad
    >>> w = ad.tensor(3.0, requires_grad=True)
    >>> y = 2 * w
    >>> y.retain_grad()
    >>> (y * y).backward()
    >>> y.grad
    f64[] 12.0
    """
    node = t.node
    if not node.kind.out.requires_grad:
        raise GradientError(located(f"retain_grad needs a tensor that requires grad; this {t.aval} does not"))
    if node.leaf is None:
        if state.now.is_traced():
            raise GradientError(located(
                "retain_grad() inside a traced function (jit, vmap, checkpoint, a loop): .grad belongs to no trace",
                "see the gradient by register_hook, or return what is wanted and use ad.grad or ad.vjp",
            ))
        node = _with_room(t)
        node.retained = node.retained or Leaf()
        t.node = node  # the attribute `.grad` reads `retained` from this node


def _with_room(t: Tensor) -> RichNode:
    """The node with room for hooks that all readers of `t` depend on, those recorded before this call too.

    A plain node has no room: its operation moves into a new node just before it, and it becomes an identity of that.
    """
    node = hooked(t.node)
    if isinstance(node, RichNode):
        return node
    before = rich_node(node.kind, node.inputs, node.value)
    before.number = node.number - 0.5  # after its inputs, before its readers
    alias = identity_of(before)
    node.kind, node.inputs = alias.kind, (before,)
    return before


def run_hooks(hooks: dict[Any, Callable], g: Tensor) -> Tensor:
    """Pass a cotangent through hooks, in order, with gradients on.  Raises GradientShapeError for another aval."""
    mode = MODE.get()
    for hook in list(hooks.values()):
        with within(mode.on):
            changed = hook(g)
        if changed is not None:
            if not isinstance(changed, Tensor):
                changed = as_tensor(changed, argument=f"the result of {hook}")
            if changed.aval != g.aval:
                raise GradientShapeError(
                    f"{hook} turned a gradient {g.aval} into {changed.aval}\n"
                    "  a gradient keeps the shape and dtype of its tensor; return None to leave it as it is"
                )
            g = changed if mode.tracks or not changed.node.kind.out.requires_grad else record(DETACH, (changed,))
    return g


#: Nested rules and hooks on one stack: at about 12 frames each they take a third of Python's thousand.
LEVELS = 25


class _Depth(threading.local):
    """The number of rules and hooks that are running on this stack."""

    value = 0


_depth = _Depth()


def call_nested(f: Callable, *args: Any) -> Any:
    """f(*args), for a rule or hook that may compute gradients itself."""
    _depth.value += 1
    try:
        return f(*args) if _depth.value < LEVELS else _on_a_new_stack(f, args)
    finally:
        _depth.value -= 1


def _on_a_new_stack(f: Callable, args: tuple) -> Any:
    """f(*args) in a new thread, while this one waits.  No pool: it would refuse work once the main thread has ended."""
    now = state.now
    told: list[tuple[Any, BaseException | None]] = []
    done = threading.Event()

    def run() -> None:
        use(now)
        try:
            told.append((f(*args), None))
        except BaseException as raised:
            told.append((None, raised))
        finally:
            done.set()

    threading.Thread(target=copy_context().run, args=(run,), name="autodiff nested backward").start()
    try:
        done.wait()
    finally:
        done.wait()  # after an interrupt, too: the new thread still uses the recording of this one
        use(now)
    result, error = told.pop()
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # the local name would keep the frames of its traceback alive
