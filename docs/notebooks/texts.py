# %% [markdown]
# # Wrong labels in texts
#
# This notebook audits labelled texts. The texts are the first paragraphs of docstrings of five Python
# packages; the label is the package. We make 20 % of the labels wrong.

# %%
import importlib
import inspect
import pkgutil
import warnings

import numpy as np

import pyrite

warnings.simplefilter("ignore")


def docstrings(package: str, most: int = 250) -> list[str]:
    """The first paragraphs of the docstrings of public functions and classes."""
    found: dict[str, str] = {}
    root = importlib.import_module(package)
    for module in [package, *(f"{package}.{m.name}" for m in pkgutil.iter_modules(root.__path__))]:
        if module.rpartition(".")[2].startswith(("_", "conftest", "test")):
            continue
        try:
            members = inspect.getmembers(importlib.import_module(module))
        except Exception:
            continue
        for name, value in members:
            text = (inspect.getdoc(value) or "").split("\n\n")[0]
            if not name.startswith("_") and getattr(value, "__module__", "").startswith(package) and len(text) > 40:
                found[text] = name
    return sorted(found)[:most]


packages = ["matplotlib", "pandas", "scipy", "sklearn", "torch"]
texts = {package: docstrings(package) for package in packages}
{package: len(found) for package, found in texts.items()}

# %%
samples = [text for package in packages for text in texts[package]]
true = np.repeat(np.arange(len(packages)), [len(texts[package]) for package in packages])
noisy = pyrite.corrupt(true, "symmetric(0.2)", classes=len(packages), seed=0)
labels = [packages[label] for label in noisy.given]

# %% [markdown]
# ## Audit
#
# `pyrite.audit` requires only a list of texts and their labels. By default, texts are encoded as TF-IDF
# features; `features="wordllama"` and Hugging Face models are alternatives.

# %%
audit = pyrite.audit(samples, label=labels, out="runs/texts")
print(audit.sentence)
print(f"In truth, {noisy.is_wrong.mean():.1%} of the labels are wrong.")

# %% [markdown]
# The most suspicious labels, with the given and the suggested package:

# %%
for sample in audit.ranking[:6]:
    print(f"{labels[sample]:>10} -> {audit.classes[audit.suggested[sample]]:<10} {samples[sample][:80]!r}")

# %% [markdown]
# ## How good is the ranking?
#
# The true labels are known here, so the ranking can be evaluated.

# %%
import matplotlib.pyplot as plt
from sklearn.metrics import PrecisionRecallDisplay, average_precision_score, precision_score, recall_score

print(f"average precision {average_precision_score(noisy.is_wrong, audit.wrong_probability):.2f}")
print(f"precision of the suspects {precision_score(noisy.is_wrong, audit.is_suspect):.2f}")
print(f"recall of the suspects {recall_score(noisy.is_wrong, audit.is_suspect):.2f}")

figure, axis = plt.subplots(figsize=(5, 3.5))
PrecisionRecallDisplay.from_predictions(noisy.is_wrong, audit.wrong_probability, ax=axis, name="audit")
axis.axhline(noisy.is_wrong.mean(), color="grey", linestyle="--", label="random order")
axis.legend()
plt.show()
