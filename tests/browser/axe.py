"""What axe-core finds on a page that has its script."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Page

CHECK = """async (scope) => {
  const { violations } = await axe.run(scope, { resultTypes: ['violations'] });
  return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.flat().join(' ')} ${node.failureSummary}`));
}"""


def serious_faults(page: Page, exclude: Sequence[str] = ()) -> list[str]:
    """The serious and the critical faults of the whole page, without the parts to ``exclude``."""
    found: list[str] = page.evaluate(CHECK, {"include": ["html"], "exclude": list(exclude)})
    return found
