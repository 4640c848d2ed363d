# %% [markdown]
# # Several annotators
#
# With one label per sample, the noise rate is not identifiable: if a model disagrees with a label,
# either of them may be wrong. A second label for some samples identifies the rate. This notebook
# simulates three annotators of different reliability on scikit-learn's digits.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas
from sklearn.datasets import load_digits

import pyrite

digits, random = load_digits(), np.random.default_rng(1)
labels = pandas.DataFrame(index=range(len(digits.target)))
reliability = {"ann": (0.04, 1.0), "bob": (0.15, 0.6), "cy": (0.30, 0.5)}  # error rate, fraction labelled
for name, (error, fraction) in reliability.items():
    wrong = random.random(len(labels)) < error
    given = np.where(wrong, (digits.target + random.integers(1, 10, len(labels))) % 10, digits.target)
    labels[name] = pandas.Series(given).where(random.random(len(labels)) < fraction)
labels.head()

# %% [markdown]
# ## Audit
#
# `pyrite.audit` accepts labels with one column per annotator. Values can be missing. The audit
# estimates the error rate of every annotator:

# %%
audit = pyrite.audit(digits.data, labels, model="mlp", epochs=15, out="runs/annotators")
print(audit.sentence)

# %%
annotators = pandas.DataFrame(
    {
        name: {"estimated": found.rate, "true": np.mean(labels[name].dropna() != digits.target[labels[name].notna()])}
        for name, found in audit.annotators.items()
    }
).T
annotators.plot.bar(rot=0, figsize=(5, 3), ylabel="error rate")
plt.show()

# %% [markdown]
# ## Consensus
#
# The consensus combines the labels of all annotators with the model. Compare it with a majority vote:

# %%
vote = labels.mode(axis=1)[0].to_numpy()
consensus = np.array(audit.classes)[audit.suggested].astype(int)
print(f"majority vote: {np.mean(vote == digits.target):.1%} correct")
print(f"consensus:     {np.mean(consensus == digits.target):.1%} correct")
