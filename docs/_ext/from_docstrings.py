"""The directive `names`: the reference of public names, made from their docstrings.

    ```{names} ad.linalg
    inv solve
    ```

gives a table with the first sentence of each name, and below it an entry for each with its signature and its whole
docstring.  Names of one object share an entry.  The docstrings are plain text with a few conventions (shapes after
an arrow, parameters with two spaces behind their names, sessions); `contents` makes docutils nodes of them.
"""

import importlib
import inspect
import re
import textwrap
from typing import NamedTuple

import numpy as np
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

import autodiff as ad

#: A line that explains one parameter, or several: `axis, keepdims   as of ...`.
PARAMETER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: {2,}|:  *)(\S.*)$")
#: Running text is split at code, at emphasis, and at the names of our errors, which link to their entries.
ERRORS = {name for name in ad.__all__ if name.endswith("Error")}
MARKED = re.compile(rf"(`[^`]+`|(?<![\w*])\*\w[\w ]*\*(?![\w*])|\b(?:{'|'.join(sorted(ERRORS))})\b)")
CALL = re.compile(r"^[\w.]+\(.*\)$")


class Space(NamedTuple):
    """The module of a docstring, and the parameters of its function: `axis` in it is no public name."""

    name: str
    parameters: frozenset = frozenset()


def parameters_of(thing):
    try:
        return frozenset(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return frozenset()


def lookup(name):
    """The object called `ad.linalg.inv`, say."""
    found = ad
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def documentation(thing):
    return inspect.getdoc(thing) or ""


# ---------------------------------------------------------------- docstrings to nodes


def inline(text, space):
    """Nodes of running text: code in backticks, which links to public names, and emphasis between stars."""
    made = []
    for part in MARKED.split(text):
        if part.startswith("`") or part in ERRORS:
            made.append(nodes.literal(part, part.strip("`"), space=space.name, without=space.parameters))
        elif len(part) > 2 and part[0] == part[-1] == "*":
            made.append(nodes.emphasis(part, part.strip("*")))
        elif part:
            made.append(nodes.Text(part))
    return made


def paragraph(text, space):
    """A paragraph; shapes with an arrow in it, set off by three spaces, are code."""
    made = nodes.paragraph()
    for part in re.split(r" {3,}", text):
        if made.children:
            made += nodes.Text(", ")
        if "→" in part and "`" not in part:
            shape = re.sub(r" {2,}", ", ", re.sub(r" *→ *", " → ", part)).strip()
            made += nodes.literal(shape, shape, classes=["shape"])
        else:
            made.extend(inline(part, space))
    return made


def first_line(line, space):
    """The first line of a docstring: its sentence, and on a line of their own the shapes."""
    sentence, gap, shapes = re.match(r"(.*?)(?:( {3,})(.*))?$", line).groups()
    return [nodes.paragraph("", "", *inline(sentence, space)), *([paragraph(shapes, space)] if gap else [])]


def parameters(lines, space):
    """A list of parameters, and the lines behind it that are none."""
    items = nodes.definition_list(classes=["parameters"])
    rest = list(lines)
    while rest and (found := PARAMETER.match(rest[0])):
        names, text = found.groups()
        rest.pop(0)
        while rest and rest[0].startswith("  "):
            text += " " + rest.pop(0).strip()
        items += definition(names, paragraph(text, space))
    return items, rest


def definition(term, *content):
    return nodes.definition_list_item(
        "", nodes.term("", "", nodes.literal(term, term)), nodes.definition("", *content)
    )


def contents(text, space):
    """The nodes of a docstring: what it says, then its sessions."""
    made, sessions = [], []
    for number, block in enumerate(re.split(r"\n\s*\n", text)):
        is_set_off = block.startswith("    ")
        block = textwrap.dedent(block)
        lines = block.splitlines()
        if lines[0].startswith(">>>"):
            sessions.append(block.removeprefix(">>> import autodiff as ad\n"))
            continue
        if number == 0 and len(lines) == 1:
            made += first_line(lines[0], space)
            continue
        if is_set_off and not PARAMETER.match(lines[0]):
            made.append(nodes.literal_block(block, block, language="python"))
            continue
        while lines:
            if PARAMETER.match(lines[0]) and "→" not in lines[0]:
                items, lines = parameters(lines, space)
                made.append(items)
            elif CALL.match(lines[0]) and len(lines) > 1 and lines[1].startswith("  "):
                term, told = lines.pop(0), []
                while lines and lines[0].startswith("  "):
                    told.append(lines.pop(0).strip())
                made.append(nodes.definition_list("", definition(term, paragraph(" ".join(told), space))))
            elif "→" in lines[0]:
                told = lines.pop(0)
                while lines and lines[0].startswith("  "):
                    told += " " + lines.pop(0).strip()
                made.append(paragraph(told, space))
            else:
                told = [lines.pop(0)]
                while lines and "→" not in lines[0] and not PARAMETER.match(lines[0]):
                    told.append(lines.pop(0).strip())
                made.append(nodes.paragraph("", "", *inline(" ".join(told), space)))
    return [*made, *(nodes.doctest_block(text, text) for text in ["\n".join(sessions)] if text)]


def summary(text):
    """The first sentence of a docstring."""
    line = " ".join(text.split("\n\n")[0].split("\n"))
    sentence = re.split(r" {3,}", line)[0]
    return re.split(r"(?<=[.:]) (?=[A-Z])", sentence)[0].rstrip(":")


# ---------------------------------------------------------------- signatures


def default(value):
    if isinstance(value, type):
        return f"ad.{value.__name__}" if hasattr(ad, value.__name__) else value.__name__
    return repr(value)


def signature(thing, method=False):
    """The parameters, with their defaults and without annotations: shapes and dtypes are told in the text."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "()"
    shown = []
    for place, p in enumerate(found.parameters.values()):
        if method and place == 0 and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            continue
        p = p.replace(annotation=p.empty)
        if p.default is np._NoValue:
            if p.kind is p.KEYWORD_ONLY:  # another name of one before
                continue
            p = p.replace(default=p.empty)
        shown.append(p if p.default is p.empty else p.replace(default=_Shown(default(p.default))))
    return str(inspect.Signature(shown))


class _Shown(str):
    def __repr__(self):
        return str(self)


# ---------------------------------------------------------------- the directives


def table(rows):
    """A table of names: in each row nodes for the name, and nodes for what it is."""
    body = nodes.tbody()
    for row in rows:
        body += nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in row))
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (30, 70)), body, cols=2)
    return nodes.table("", group, classes=["names"])


class Names(SphinxDirective):
    """Entries for public names of a module, made from their docstrings."""

    has_content = True
    required_arguments = 1

    def run(self):
        space = self.arguments[0]
        names = " ".join(self.content).split()
        groups = {}
        for name in names:
            thing = lookup(f"{space}.{name}")
            told = documentation(thing)
            groups.setdefault((id(thing), told), [thing, []])[1].append(name)
        entries = []
        for thing, same in groups.values():
            entries += self.entry(space, same, thing)
        overview = self.table(space, groups.values()) if len(groups) > 1 else []
        return [*overview, *entries]

    def table(self, space, groups):
        rows = []
        for thing, same in groups:
            shown = []
            for name in same:
                full = f"{space}.{name}"
                shown += [nodes.Text(", ")] * bool(shown) + [nodes.literal(full, full)]
            rows.append([shown, inline(summary(documentation(thing)), Space(space, parameters_of(thing)))])
        return [table(rows)]

    def described(self, kind, signatures, content):
        """An entry of the Python domain with this content."""
        text = f".. py:{kind}:: " + "\n   ".join(signatures)
        if len(signatures) == 1 and kind in ("function", "class", "exception"):
            text += "\n   :canonical: " + signatures[0].partition("(")[0].replace("ad.", "autodiff.", 1)
        made = self.parse_text_to_nodes(f"```{{eval-rst}}\n{text}\n```\n")
        next(n for node in made for n in node.findall(addnodes.desc_content)).extend(content)
        return made

    def entry(self, space, same, thing):
        names = [f"{space}.{name}" for name in same]
        told = contents(documentation(thing), Space(space, parameters_of(thing)))
        if isinstance(thing, type) and getattr(thing, "__name__", "").startswith(same[0]):
            kind = "exception" if issubclass(thing, BaseException) else "class"
            made_by_call = kind == "class" and not re.search("never by\\s+calling|deriving", documentation(thing))
            shown = [name + (signature(thing) if made_by_call else "") for name in names]
            return self.described(kind, shown, [*told, *self.members(names[0], thing)])
        if callable(thing) and not isinstance(thing, type) and same[0][0].islower():
            forms = re.findall(rf"^{same[0]}\(.*\)$", documentation(thing), re.MULTILINE)  # as the docstring has them
            shown = [f"{space}.{form}" for form in forms] or [name + signature(thing) for name in names]
            return self.described("function", shown, told)
        return self.described("data", names, told)

    def members(self, name, cls, chosen=()):
        """Entries for what a class adds to its bases; of tensors, for everything, operations in a table."""
        known = chosen or sorted(dir(cls) if cls is ad.Tensor else vars(cls))
        is_structured = issubclass(cls, ad.AbstractTensor) and cls not in (ad.Tensor, ad.AbstractTensor)
        made, operations = [], []
        for member in known:
            static = inspect.getattr_static(cls, member)
            thing = getattr(cls, member)
            told = documentation(thing)
            hidden = member.startswith("_") or inspect.ismemberdescriptor(static) or told.startswith("Not here")
            if hidden or not told or told == documentation(type(static)):
                continue
            if is_structured and (member == "aval" or not isinstance(static, property)):
                continue
            full = f"{name}.{member}"
            if callable(thing) and not isinstance(static, property):
                function = getattr(ad, member, None)
                if function is not None and told == documentation(function):
                    call = f"t.{member}{signature(function, method=True)}"
                    operations.append((call, f"`ad.{member}`.  {summary(told)}"))
                    continue
                bound = isinstance(static, classmethod | staticmethod)
                told = contents(told, Space("ad", parameters_of(thing)))
                made += self.described("method", [full + signature(thing, method=not bound)], told)
            else:
                made += self.described("property", [full], contents(told, Space("ad")))
        if operations and cls is ad.Tensor:
            made.append(nodes.paragraph("", "These operations are methods too, of the tensor as their first argument:"))
            made.append(table([[nodes.literal(t, t)], inline(told, Space("ad"))] for t, told in operations))
        return made


class Members(Names):
    """Entries for members of a class that is met as the value of something: `f.method` of every function `f`."""

    required_arguments = 3

    def run(self):
        path, _, shown = self.arguments
        module, _, cls = path.rpartition(".")
        return self.members(shown, getattr(importlib.import_module(module), cls), " ".join(self.content).split())


def setup(app):
    app.add_directive("names", Names)
    app.add_directive("members", Members)
    return {"parallel_read_safe": True}
