# %% [markdown]
# # Adding a method
#
# A method of pyrite is a configuration and a `Trainer`. The base class owns the training step; a method
# overrides the parts that differ. This notebook adds *small-loss trimming*: the samples with the largest
# losses of each batch do not count, and their fraction grows over the first epochs.

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
# Registered, it works like a built-in method: in spec strings, in comparisons and searches, for a resumed
# run, and on several processes.

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

# %%
run = pyrite.train(
    "digits", method="trim(fraction=0.4)", noise="symmetric(0.4)", model="mlp", epochs=6, out="runs/trim"
)
[round(line["left_out"], 2) for line in run.history]
