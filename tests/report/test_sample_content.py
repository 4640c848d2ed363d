"""What a page has of texts."""

import numpy as np

from pyrite.data.records import texts
from pyrite.report.sample_content import marked_texts
from tests.report.audits import make_audit


def test_texts_are_shown_while_there_is_room() -> None:
    """A piece takes its bytes and eight more; "good" is in all texts of one class and in none of the other."""
    audit = make_audit(("bad", "good"), samples=8, suspects=2, index=np.arange(8))
    records = texts(["Good film", "ein Märchen", *["bad", "good"] * 3])
    pieces = [[[1, "Good"], [0, " film"]], [[0, "ein Märchen"]]]
    first, second = 4 + 5 + 2 * 8, 12 + 8
    for budget, shown in ((first + second, 2), (first + second - 1, 1), (first - 1, 0)):
        found = marked_texts(audit, records, np.arange(2), budget)
        assert found == {"rows": shown, "pieces": pieces[:shown]}
