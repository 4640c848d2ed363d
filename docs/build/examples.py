"""An extension of griffe: doctest examples in docstrings are shown as code."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts each example, up to the next blank line, into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None:
            text = obj.docstring.value.replace("  # doctest: +SKIP", "")
            obj.docstring.value = EXAMPLE.sub(r"```python\n\g<0>\n```", text)
