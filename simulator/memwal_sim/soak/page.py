"""The report of a soak as one HTML page that needs nothing else: figures, plots, and the failure if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from .plots import draw_all

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>memwal explore soak: {{ verdict }}</title>
<style>
  :root { color-scheme: light dark; --ink: #1b1d20; --paper: #fcfcfa; --line: #d5d7da; --bad: #b3261e; --good: #1a7f4b }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #dfe2e6; --paper: #16181b; --line: #3a3e44; --bad: #ff8a80; --good: #6fd6a0 }
  }
  body { color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
         max-width: 76rem; padding: 0 1rem }
  h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
  .bad { color: var(--bad) } .good { color: var(--good) }
  .plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1.5rem }
  figure { margin: 0; min-width: 0 } figcaption { font-weight: 600 } svg { width: 100%; height: auto }
  .wide { overflow-x: auto }
  table { border-collapse: collapse } th, td { text-align: left; padding: .15rem .8rem .15rem 0; vertical-align: top;
          border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
  code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere }
</style>
<h1>Soak: <span class="{{ 'bad' if result.violation else 'good' }}">{{ verdict }}</span></h1>
<p>{{ '%.2f' | format(result.virtual_ms / 86400000) }} virtual days of {{ result.settings.regions }} regions under
revision {{ result.settings.revision }}, seed {{ result.settings.seed }}; run <code>{{ result.digest }}</code>.</p>
{% if result.violation %}
<h2 class="bad">{{ result.violation.oracle }} [{{ result.violation.clause }}]</h2>
<p>{{ result.violation.reason }}</p>
<table>{% for name, value in result.violation.counterexample.items() %}
<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>
{% endif %}
<h2>Figures</h2>
<table>{% for name, value in figures.items() %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>
<h2>Over virtual time</h2>
<div class="plots">{% for title, svg in plots %}
<figure><figcaption>{{ title }}</figcaption>{{ svg | safe }}</figure>{% endfor %}
</div>
<h2>Requests by role</h2>
<div class="wide"><table><tr><th>role</th>{% for kind in kinds %}<th>{{ kind }}</th>{% endfor %}</tr>
{% for role, counts in result.totals.requests_by_role.items() %}<tr><th>{{ role }}</th>
{% for kind in kinds %}<td>{{ '{:,}'.format(counts[kind]) if kind in counts else '' }}</td>{% endfor %}</tr>{% endfor %}
</table></div>
<h2>How processes ended</h2>
<table>{% for name, count in result.totals.ends.items() %}
<tr><th>{{ name }}</th><td>{{ '{:,}'.format(count) }}</td></tr>{% endfor %}</table>
<h2>Settings</h2>
<table>{% for name, value in result.settings.items() %}
<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>
{% if result.last_requests %}
<h2>Last requests</h2>
<div class="wide"><table><tr><th>ms</th><th>actor</th><th>request</th><th>path</th><th>fate</th><th>answer</th></tr>
{% for row in result.last_requests %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table></div>
{% endif %}
</html>
"""


def verdict_of(result: Mapping[str, Any]) -> str:
    """One phrase."""
    return "an oracle was broken" if result["violation"] else "every oracle held"


def figures_of(result: Mapping[str, Any]) -> dict[str, str]:
    """What is worth knowing first, name -> text."""
    totals = result["totals"]
    up, user = totals["bytes_up"], max(totals["user_bytes"], 1)
    return {
        "puts": f"{totals['puts_acknowledged']:,} acknowledged of {totals['puts_begun']:,}",
        "requests": f"{sum(totals['requests'].values()):,}",
        "faults": ", ".join(f"{name} {count:,}" for name, count in totals["faults"].items()) or "none",
        "reads": ", ".join(f"{name} {count:,}" for name, count in totals["reads"].items()) or "none",
        "claims": f"{totals['notes'].get('claimed', 0):,}",
        "commits that lost": f"{sum(totals['conflicts'].values()):,}",
        "deletions judged": f"{totals['deletions_judged']:,}",
        "looks at the whole store": f"{totals['checks']:,}",
        "bytes put": f"{up:,} ({up / user:.1f} times those of the rows)",
        "cost": f"{totals['cost']:.4f}",
    }


def render(result: Mapping[str, Any]) -> str:
    """The page for a `memwal_sim.soak.run.Result` as its ``as_dict`` gives it.

    Raises `InvalidArgument` without matplotlib.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    kinds = sorted({kind for counts in result["totals"]["requests_by_role"].values() for kind in counts})
    return environment.from_string(_PAGE).render(
        result=result,
        verdict=verdict_of(result),
        figures=figures_of(result),
        kinds=kinds,
        plots=draw_all(result["series"]),
    )
