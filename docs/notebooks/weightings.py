# %% [markdown]
# # Why losses are weightings
#
# For scores s and a label y, the soft margin is Δ = s_y − log Σ_{i≠y} exp(s_i). Nearly every robust loss
# is a function of this number. Its gradient has the same direction for all of them; only the weight
# w(Δ) of a sample differs.

# %%
import matplotlib.pyplot as plt
import torch

import pyrite

margins = torch.linspace(-12, 8, 400)
specs = ["ce", "unit(mae)", "unit(gce(q=0.7))", "unit(imae(T=8))", "unit(scale(mae, tau=2.6, classes=100))"]
plt.figure(figsize=(7, 4))
for spec in specs:
    plt.plot(margins, pyrite.loss(spec).weight_at(margins), label=spec)
for classes, side in ((10, "left"), (100, "right")):
    start = pyrite.expected_margin(classes=classes)
    plt.axvline(start, color="grey", linestyle=":")
    plt.text(start, 1.05, f" {classes} classes ", ha=side, color="grey")
plt.xlabel("margin Δ")
plt.ylabel("weight w(Δ)")
plt.ylim(0, 1.13)
plt.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()

# %% [markdown]
# The dotted lines are the mean margins of an untrained network. With 100 classes, the weight of MAE is
# close to 0 at this margin, so MAE underfits. `scale` stretches the curve, so that the weight at this
# margin is larger.
#
# ## The gradient confirms it
#
# Half the L1 norm of the gradient of a sample equals w(Δ) for all scores:

# %%
scores, labels = torch.randn(5, 10, requires_grad=True), torch.arange(5)
loss = pyrite.GCE(q=0.7, reduction="sum")
(gradient,) = torch.autograd.grad(loss(scores, labels), scores)
weights = loss.weight_at(pyrite.margin(scores, labels))
print((gradient.abs().sum(1) / 2).tolist())
print(weights.tolist())

# %% [markdown]
# ## The effect on training
#
# We train with cross entropy, MAE and scaled MAE on digits with 40 % wrong labels. `memorised` is the
# fraction of wrong labels that the network predicts.

# %%
comparison = pyrite.compare(
    "digits",
    ["ce", "mae", "unit(scale(mae, tau=2, classes=10))"],
    noise="symmetric(0.4)",
    model="mlp",
    epochs=20,
    out="runs/weightings",
)
print(comparison)

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3))
for row in comparison.rows:
    for axis, column in zip(axes, ("test_accuracy", "memorised"), strict=True):
        axis.plot([line[column] for line in row.runs[0].history], label=row.name)
        axis.set(xlabel="epoch", title=column.replace("_", " "))
axes[0].legend(fontsize=7)
plt.show()

# %% [markdown]
# Cross entropy memorises nearly all wrong labels, and MAE few of them. With ten classes, MAE does not
# underfit, so scaling it gains nothing here.
