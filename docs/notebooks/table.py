# %% [markdown]
# # Wrong labels in a table
#
# This notebook audits the labels of a table. The table has measurements of breast tumours (569 rows,
# from scikit-learn). We make 15 % of its labels wrong, so that the result can be checked.

# %%
import numpy as np
from sklearn.datasets import load_breast_cancer

import pyrite

cancer = load_breast_cancer(as_frame=True)
noisy = pyrite.corrupt(cancer.target.to_numpy(), "symmetric(0.15)", classes=2, seed=0)
names = np.array(["malignant", "benign"])
table = cancer.data.assign(diagnosis=names[noisy.given])
table.iloc[:3, -4:]

# %% [markdown]
# ## Audit
#
# `pyrite.audit` accepts the frame and the name of the label column. Each label is scored by a network
# that was not trained on it.

# %%
audit = pyrite.audit(table, label="diagnosis", out="runs/table")
print(audit.sentence)
print(f"In truth, {noisy.is_wrong.mean():.1%} of the labels are wrong.")

# %% [markdown]
# ## Suspects
#
# `to_frame` ranks all samples by the probability that their label is wrong.

# %%
audit.to_frame()[["index", "given", "suggested", "wrong_probability"]].head(8)

# %% [markdown]
# A reviewer who follows the ranking finds most of the wrong labels early:

# %%
import matplotlib.pyplot as plt

order = audit.ranking
found = np.cumsum(noisy.is_wrong[order])
plt.figure(figsize=(5, 3))
plt.plot(found, label="audit")
plt.plot([0, len(order)], [0, found[-1]], "--", label="random order")
plt.xlabel("labels reviewed")
plt.ylabel("wrong labels found")
plt.legend()
plt.show()

# %% [markdown]
# ## Train on the noisy labels
#
# `RobustClassifier` is a scikit-learn estimator that is robust to wrong labels.

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, given, true = cancer.data, noisy.given, noisy.true
X_train, X_test, y_train, _, _, true_test = train_test_split(X, given, true, test_size=0.3, random_state=0)
plain = make_pipeline(StandardScaler(), LogisticRegression(C=100, max_iter=5000)).fit(X_train, y_train)
robust = pyrite.RobustClassifier(random_state=0).fit(X_train, y_train)
print(f"logistic regression: {plain.score(X_test, true_test):.1%} of the true test labels")
print(f"RobustClassifier:    {robust.score(X_test, true_test):.1%}")
