# %% [markdown]
# # Adding a method
#
# A method of pyrite is a configuration and a `Trainer`. The base class owns the training step; a method
# overrides the parts that differ. This notebook adds *small-loss trimming*: it ignores the samples with
# the largest losses in each batch. The fraction of ignored samples grows over the first epochs.

# %%
import pyrite


class Trim(pyrite.Method):
    """Leaves out the fraction of each batch with the largest losses."""

    def __init__(self, fraction: float = 0.2, ramp: int = 5) -> None:
        self.fraction, self.ramp = fraction, ramp

    def start(self, context):
        return TrimTrainer(self, context)


class TrimTrainer(pyrite.Trainer):
    whole_batch = True  # the weights of a sample depend on the other samples of its batch

    def __init__(self, method, context):
        super().__init__(context)
        self.fraction, self.ramp = method.fraction, method.ramp

    def weights(self, batch, losses):
        left_out = self.fraction * min(1, self.epoch / self.ramp)
        return (losses <= losses.quantile(1 - left_out)).to(losses)

    def facts(self):
        return {"left_out": self.fraction * min(1, self.epoch / self.ramp)}


# %% [markdown]
# Once registered, it works like a built-in method: in spec strings, comparisons and searches, in resumed
# runs, and with several processes.

# %%
pyrite.register("trim", Trim)
comparison = pyrite.compare(
    "digits",
    ["ce", "trim(fraction=0.4)", "co_teaching"],
    noise="symmetric(0.4)",
    model="mlp",
    epochs=20,
    out="runs/methods",
)
print(comparison)

# %% [markdown]
# `facts` adds a number to the history of a run, here the fraction of ignored samples. Trimming
# memorises fewer wrong labels than cross entropy:

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(8, 3))
for row in comparison.rows:
    axes[0].plot([line["memorised"] for line in row.runs[0].history], label=row.name)
axes[0].set_title("wrong labels memorised")
axes[0].legend(fontsize=7)
axes[1].plot([line["left_out"] for line in comparison.rows[1].runs[0].history])
axes[1].set_title("fraction left out by trim")
for axis in axes:
    axis.set_xlabel("epoch")
plt.show()
