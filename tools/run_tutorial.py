"""Run a tutorial and print it as Markdown: python tools/run_tutorial.py docs/tutorials/NAME.py

A tutorial is a script in jupytext's percent format: `# %% [markdown]` begins a cell of text, `# %%` one of code. A code
cell shows what it prints, the value of its last line, and its open figures, in the colors of the page; `# %% hidden`
shows no code.
"""

import ast
import contextlib
import io
import re
import sys
from pathlib import Path


def cells(text: str) -> list[tuple[str, str]]:
    """("markdown", "code" or "hidden", its text) of each cell."""
    out = []
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        kind = "markdown" if "[markdown]" in head else "hidden" if "hidden" in head else "code"
        body = body.strip("\n")
        out.append((kind, re.sub(r"^# ?", "", body, flags=re.M) if kind == "markdown" else body))
    return out


def run(code: str, scope: dict) -> str:
    """What the cell shows."""
    tree, shown = ast.parse(code), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(shown):
        exec(compile(tree, "<cell>", "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
            if value is not None and not _drawn(value):
                print(value)
    return shown.getvalue()


def _drawn(value) -> bool:
    """Whether it is a part of a figure, which is shown as a picture."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    return type(first).__module__.startswith("matplotlib")


def page(source: Path) -> str:
    """The tutorial with what its cells show, in Markdown."""
    import matplotlib.pyplot as plt

    from scax.report.svg import SERIES, STYLE, to_svg

    plt.rcParams.update(STYLE | {"axes.prop_cycle": plt.cycler(color=SERIES), "figure.constrained_layout.use": True})
    plt.rcParams.update(
        {"text.parse_math": True, "figure.figsize": (6.4, 3.2), "figure.facecolor": "none", "axes.facecolor": "none"}
    )
    scope, drawn, out = {"__name__": "tutorial"}, 0, []
    for kind, text in cells(source.read_text(encoding="utf-8")):
        if kind == "markdown":
            out.append(f"{text} \n")
            continue
        if kind == "code":
            out.append(f"```python\n{text}\n```\n")
        if said := run(text, scope).rstrip():
            out.append(f'```text title="Output"\n{said}\n```\n')
        for number in plt.get_fignums():
            svg = to_svg(plt.figure(number), f"{source.stem}-{drawn}", math=True)
            drawn += 1
            out.append(f'<figure class="chart">{svg.strip()}</figure>\n'.replace("\n\n", "\n"))
        plt.close("all")
    return "\n".join(out)


if __name__ == "__main__":
    print(page(Path(sys.argv[1])))
