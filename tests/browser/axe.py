"""What axe-core finds on a page that has its script."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Page

COLOURS = ("color-contrast",)
"""The rules by which another colour scheme of the same state may have faults of its own."""

CHECK = """async ([scope, options]) => {
  const { violations } = await axe.run(scope, { resultTypes: ['violations'], ...options });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""


def serious_faults(page: Page, exclude: Sequence[str] = (), rules: Sequence[str] = ()) -> list[str]:
    """The serious and the critical faults of the whole page without the parts to ``exclude``, by all rules or some."""
    options = {"runOnly": list(rules)} if rules else {}
    found: list[str] = page.evaluate(CHECK, [{"include": ["html"], "exclude": list(exclude)}, options])
    return found
