"""What axe-core finds on a page that has its script."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Page

COLOURS = ("color-contrast",)
"""The rules by which another colour scheme of the same state may have faults of its own."""

# Parts that are as they were at the last check with the same options, in a window of the same width, are left out. Each
# element of them was visible or hidden then as it is now: axe-core does not look at what is hidden.
# What is in a shadow root is not in a part's HTML, so a part with one is left out only by the caller.
CHECK = """async ([exclude, options]) => {
  const mode = JSON.stringify([exclude, options, innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]);
  const seen = ((window.axeSeen ??= {})[mode] ??= new Map());
  const isExcluded = (part) => exclude.some((selector) => part.closest(selector));
  const hosts = [...document.querySelectorAll('*')].filter((part) => part.shadowRoot && !isExcluded(part));
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true });
  const parts = [...document.querySelectorAll('body [id]')].filter((part) => {
    const [before, now] = [seen.get(part), part.outerHTML + [part, ...part.querySelectorAll('*')].map(isVisible)];
    seen.set(part, now);
    return before === now && !hosts.some((host) => part.contains(host));
  });
  const { violations } = await axe.run({ include: ['html'], exclude: [...exclude, ...parts] },
    { resultTypes: ['violations'], ...options });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""


def serious_faults(page: Page, exclude: Sequence[str] = (), rules: Sequence[str] = ()) -> list[str]:
    """The serious and the critical faults of the page without the parts to ``exclude``, by all rules or some. The
    first time of the whole page, later of the parts that have changed or become visible."""
    options = {"runOnly": list(rules)} if rules else {}
    found: list[str] = page.evaluate(CHECK, [list(exclude), options])
    return found
