"""Facts about a run or an agent, for people: as text, and as a table in notebooks."""

import html
from collections.abc import Mapping

from mean_actor_critic.terminal import one_line


def as_text(title: str, facts: Mapping[str, str]) -> str:
    """A line for the title and each fact."""
    return "\n".join([title, *(one_line(f"  {name}: {words}") for name, words in facts.items())])


def as_html(title: str, facts: Mapping[str, str]) -> str:
    """A table with a row for each fact."""
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(words)}</td></tr>"
        for name, words in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"
