"""The directive `refused-parameters`: parameters of NumPy's that take only what changes nothing, and why."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from autodiff.ops.forms import WITHOUT_EFFECT


def cell(*parts):
    return nodes.entry("", nodes.paragraph("", "", *parts))


def code(texts):
    made = []
    for text in texts:
        made += [nodes.Text(", ")] * bool(made) + [nodes.literal(text, text)]
    return made


class RefusedParameters(SphinxDirective):
    """A table: parameter, values that are taken, why there are no others."""

    def run(self):
        rows = nodes.tbody()
        for name, (values, reason) in WITHOUT_EFFECT.items():
            taken = code(map(repr, values)) if isinstance(values, tuple) else [nodes.Text("any")]
            rows += nodes.row("", cell(*code([name])), cell(*taken), cell(nodes.Text(reason)))
        titles = nodes.row("", *(cell(nodes.Text(title)) for title in ("parameter", "values taken", "why")))
        columns = [nodes.colspec(colwidth=width) for width in (20, 40, 40)]
        return [nodes.table("", nodes.tgroup("", *columns, nodes.thead("", titles), rows, cols=3))]


def setup(app):
    app.add_directive("refused-parameters", RefusedParameters)
    return {"parallel_read_safe": True}
