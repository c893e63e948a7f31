"""The directive `command-line`: a section for each command of `autodiff`, with what its `--help` says."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command
from typer.testing import CliRunner

from autodiff.cli import app


class CommandLine(SphinxDirective):
    """A section for each command, in the order of `autodiff --help`."""

    def run(self):
        made = []
        for name in get_command(app).commands:
            told = CliRunner().invoke(app, [name, "--help"], prog_name="autodiff", terminal_width=88).output.strip()
            command = f"autodiff {name}"
            section = nodes.section(ids=[nodes.make_id(command)], names=[command])
            section += nodes.title("", "", nodes.literal(command, command))
            section += nodes.literal_block(told, told, language="text")
            made.append(section)
        return made


def setup(app):
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
