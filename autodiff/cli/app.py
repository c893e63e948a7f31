"""The application that commands are added to, and its output: text or JSON, errors as one message."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import typer

from ..errors import Error, writing

app = typer.Typer(
    name="autodiff",
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = typer.Option(False, "--json", help="Print JSON.")


def _say_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"autodiff {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_say_version, is_eager=True, help="Print the version."),
) -> None:
    """Automatic differentiation whose gradients you can read."""


def say(data: Any, text: str, as_json: bool, output: str = "", kind: str = "") -> None:
    """Print the data as JSON, or the text; or write it to a file.

    kind   the language of the text, which is coloured on a terminal
    """
    told = json.dumps(data, indent=2) if as_json else text
    if output:
        with writing("", output):
            Path(output).write_text(f"{told}\n", encoding="utf-8")
    elif kind and not as_json and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from .colours import show  # for a terminal

        show(told, kind)
    else:
        typer.echo(told)


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one message on stderr and exit code 1."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except Error as error:
            # The command line made the call, so there is no line of a program to name.
            text = str(error).replace("\n  called at an unknown place", "")
            typer.echo(f"{type(error).__name__}: {text}", err=True)
            raise typer.Exit(1) from None

    return run


@contextmanager
def user_errors(file: str) -> Iterator[None]:
    """Turn an exception of the user's code into an Error that names its line in the file.

    The output of that code goes to stderr.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Error, typer.BadParameter):
        raise
    except SystemExit as end:
        if end.code:
            code = f"exit code {end.code}" if isinstance(end.code, int) else f"the message: {end.code}"
            raise Error(f"{file} ended with {code}") from None
    except Exception as error:
        path = Path(file).resolve()
        theirs = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path]
        where = f"\n  at {path.name}:{theirs[-1].lineno}, in {theirs[-1].name}" if theirs else ""
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        raise Error(f"{type(error).__name__}: {error}{where}{notes}") from None
