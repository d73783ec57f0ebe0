"""Find what a browser would skip in a style sheet without a word: python .ci/lint_css.py FOLDER

A rule or a declaration that a browser cannot read does nothing, and neither does one with a misspelt name. So
this reports what cannot be parsed, properties that are not in PROPERTIES, have no value or are set twice in a
rule, variables that nothing sets, colours like #12, and rules that are empty or stand in another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import tinycss2
from cssselect2 import SelectorError, compile_selector_list
from tinycss2.ast import Node
from tinycss2.color4 import parse_color

# Whoever needs another property adds it here, after looking up that browsers know it by this name.
PROPERTIES = """
-webkit-print-color-adjust align-items aspect-ratio background background-color background-image border
border-bottom border-collapse border-color border-radius border-top box-sizing break-after break-inside color
color-scheme cursor display fill flex flex-direction flex-wrap font font-size font-style font-variant-numeric
font-weight gap grid-column grid-template-columns height image-rendering justify-content letter-spacing
line-height margin margin-bottom margin-top max-width min-width opacity outline overflow overflow-wrap
overflow-x padding padding-block padding-inline padding-left padding-right print-color-adjust stroke
stroke-dasharray stroke-linejoin stroke-width table-layout text-align transform vertical-align white-space
width writing-mode
"""
SET_BY_PAGES = {"--w", "--picture", "--shape"}
"""Variables that a page sets on its elements, in style="..." or from a script."""


def read(text: str) -> list[Node]:
    return tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)


def body(rule: Node) -> list[Node]:
    """The declarations and rules between a rule's braces."""
    if rule.content is None:  # @import and the like
        return []
    return tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)


def inside(node: Node) -> Iterable[Node]:
    """The nodes right below a node."""
    if node.type in ("qualified-rule", "at-rule"):
        return [*node.prelude, *body(node)]
    if node.type == "declaration":
        return node.value
    if node.type == "function":
        return node.arguments
    return node.content if node.type in ("() block", "[] block", "{} block") else ()


def below(nodes: Iterable[Node]) -> Iterator[Node]:
    """These nodes and all below them."""
    for node in nodes:
        yield node
        yield from below(inside(node))


def faults_of_rule(rule: Node) -> Iterator[str]:
    try:
        compile_selector_list(rule.prelude)
    except SelectorError as error:
        yield f"the selector: {error.args[-1]}"
    parts = body(rule)
    names = [part.name for part in parts if part.type == "declaration"]
    yield from (f"{name} is set twice in one rule" for name in sorted(set(names)) if names.count(name) > 1)
    if not parts:
        yield "nothing between the braces"
    if any(part.type == "qualified-rule" for part in parts):
        yield "a rule inside a rule: is there a brace missing?"


def faults_of_declaration(declaration: Node, known: set[str]) -> Iterator[str]:
    name, value = declaration.name, declaration.value
    if not name.startswith("--") and name not in PROPERTIES.split():
        yield f"unknown property {name}"
    if all(node.type in ("whitespace", "comment") for node in value):
        yield f"{name} has no value"
    if any(node == ":" for node in value):
        yield f"the value of {name} goes on too far: is there a semicolon missing?"
    for node in below(value):
        if node.type == "hash" and parse_color(node) is None:
            yield f"#{node.value} is no colour"
        if node.type == "function" and node.lower_name == "var":
            used = [argument.value for argument in node.arguments if argument.type == "ident"][:1]
            yield from (f"nothing sets {variable}" for variable in used if variable not in known)


def faults(text: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """The line and the kind of each fault of a style sheet that may use the variables in `known`."""
    for node in below(read(text)):
        if node.type == "error":
            yield node.source_line, node.message
        elif node.type == "qualified-rule":
            yield from ((node.source_line, what) for what in faults_of_rule(node))
        elif node.type == "declaration":
            yield from ((node.source_line, what) for what in faults_of_declaration(node, known))
    if read(text + "\n}")[-1].type != "error":  # a brace too many, unless one was open
        yield len(text.splitlines()), "a brace is still open at the end"


def main(folder: str) -> int:
    sheets = {path: path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.css"))}
    if not sheets:
        sys.exit(f"no style sheets below {folder}")
    found = [node for text in sheets.values() for node in below(read(text))]
    known = SET_BY_PAGES | {node.name for node in found if node.type == "declaration"}
    lines = [f"{path}:{line}: {what}" for path, text in sheets.items() for line, what in faults(text, known)]
    print("\n".join(lines) or f"{len(sheets)} style sheets without a fault")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
