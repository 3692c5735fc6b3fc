"""The HTML around the charts: one self-contained page, no scripts, no network."""

from collections.abc import Iterable, Sequence
from html import escape as _escape
from importlib import resources

from .._text import printable


def text(value: str, most: int | None = None) -> str:
    """Text as HTML: every name that a stranger may have given passes here, or through `charts`."""
    return _escape(printable(value, most), quote=True)


def page(title: str, body: Iterable[str]) -> str:
    """A whole document. The policy in its head forbids everything that is not in the file itself."""
    css = resources.files("scax.report").joinpath("style.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def chart(title: str, svg: str, caption: str = "") -> str:
    """One chart with its title and a sentence on how to read it."""
    note = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    title = text(title)
    return f'<figure class="card" aria-label="{title}"><h3>{title}</h3>\n{svg}{note}</figure>'


def grid(charts: Iterable[str]) -> str:
    return '<div class="grid">\n' + "\n".join(c for c in charts if c) + "\n</div>"


def legend(entries: Iterable[tuple[str, int, bool]]) -> str:
    """(label, color, strong) of each line on the page."""
    items = (
        f"<span>{key(color)}{f'<b>{text(label)}</b>' if strong else text(label)}</span>"
        for label, color, strong in entries
    )
    return f'<div class="legend">{"".join(items)}</div>'


def key(color: int) -> str:
    """The line of a series: its color and, so that paper without colors tells them apart, its dashes."""
    from .svg import DASHES

    dashes = " ".join(str(2 * part) for part in DASHES[color % len(DASHES)])
    line = f'<line x1="0" x2="38" y1="5" y2="5" stroke="var(--s{color})" stroke-dasharray="{dashes}"/>'
    return f'<svg class="key" viewBox="0 0 38 10" aria-hidden="true">{line}</svg>'


def table(head: Sequence[str], body: Iterable[tuple[str, Sequence[str]]], css: str = "") -> str:
    """Cells are HTML; each body row is (class, cells), its first cell the row's header."""
    out = [f'<div class="card scroll {css}"><table><thead><tr>']
    out += [f'<th scope="col">{cell}</th>' for cell in head]
    out.append("</tr></thead><tbody>")
    for kind, (first, *rest) in body:
        out.append(
            f'<tr class="{kind}"><th scope="row">{first}</th>' + "".join(f"<td>{c}</td>" for c in rest) + "</tr>"
        )
    out.append("</tbody></table></div>")
    return "\n".join(out)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of settings."""
    items = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs)
    return f'<dl class="card">{items}</dl>'


def command(line: str) -> str:
    return f'<pre class="card">{text(line)}</pre>'
