"""Code such as `ad.jit` or `ad.linalg.inv` anywhere in the text links to its entry in the reference."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"^@?([A-Za-z_][\w.]*)(\(.*\))?$")


class LinkNames(SphinxTransform):
    """Give each literal that may be a public name a reference; one that is not is left as it is."""

    default_priority = 5

    def apply(self):
        for literal in list(self.document.findall(nodes.literal)):
            found = NAME.match(literal.astext())
            space, without = literal.attributes.pop("space", None), literal.attributes.pop("without", ())
            inside = isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.term)
            if not found or inside or found[1] in without or not (space or found[1].startswith("ad.")):
                continue
            link = addnodes.pending_xref(
                "", literal.deepcopy(), refdomain="py", reftype="public_name", reftarget=found[1], refwarn=False,
                refdoc=self.env.docname, space=space,
            )
            literal.replace_self(link)


def resolve(app, env, node, content):
    """The entry of the name in its own module, else in `ad`; names that have none stay code."""
    if node.get("reftype") != "public_name":
        return None
    objects = env.domains["py"].objects
    target, space = node["reftarget"], node.get("space")
    for name in (target, f"{space}.{target}", f"ad.{target}"):
        if name in objects and (name.startswith("ad.")):
            to = objects[name]
            link = nodes.reference("", "", internal=True, reftitle=name)
            link["refuri"] = app.builder.get_relative_uri(node["refdoc"], to.docname) + "#" + to.node_id
            link += content
            return link
    return content


def setup(app):
    app.add_transform(LinkNames)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
