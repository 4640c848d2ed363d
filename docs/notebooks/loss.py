# %% [markdown]
# # A robust loss in a PyTorch loop
#
# Replace `nn.CrossEntropyLoss()` with a loss of pyrite. Nothing else changes.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import pyrite

digits = load_digits()
inputs, true = torch.tensor(digits.data / 16, dtype=torch.float32), digits.target
noisy = pyrite.corrupt(true, "symmetric(0.4)", classes=10, seed=0)
labels, true = torch.tensor(noisy.given), torch.tensor(true)
train, test = torch.arange(len(labels)) < 1400, torch.arange(len(labels)) >= 1400


def accuracies(loss: nn.Module, epochs: int = 60) -> list[float]:
    """The accuracy on true test labels after each epoch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    history = []
    for _ in range(epochs):
        for batch in torch.randperm(int(train.sum())).split(64):
            optimiser.zero_grad()
            loss(net(inputs[batch]), labels[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            history.append((net(inputs[test]).argmax(1) == true[test]).double().mean().item())
    return history


losses = {
    "cross entropy": nn.CrossEntropyLoss(),
    "GCE": pyrite.GCE(q=0.7),
    "MAE": pyrite.MAE(),
    "IMAE": pyrite.IMAE(T=8),
    "NCE + MAE": pyrite.loss("0.7*nce + 0.15*mae"),
}
plt.figure(figsize=(6, 3.5))
for name, loss in losses.items():
    plt.plot(accuracies(loss), label=name)
plt.xlabel("epoch")
plt.ylabel("test accuracy")
plt.legend()
plt.show()

# %% [markdown]
# ## Exact at extreme scores
#
# Common implementations clamp probabilities, so the gradient is 0 for very confident and for very hard
# samples. pyrite computes the gradient from the margin:

# %%
scores = torch.tensor([[30.0, 0.0], [-30.0, 0.0]], requires_grad=True)
label = torch.tensor([0, 0])
p = scores.softmax(1).gather(1, label[:, None]).squeeze(1).clamp(1e-7, 1 - 1e-7)
usual = torch.autograd.grad(((1 - p**0.7) / 0.7).sum(), scores)[0]
exact = torch.autograd.grad(pyrite.GCE(q=0.7)(scores, label) * 2, scores)[0]
print("clamped:", usual.tolist())
print("pyrite: ", exact.tolist())

# %% [markdown]
# ## Will a loss underfit?
#
# With many classes, the samples of an untrained network have almost no weight under MAE:

# %%
print(pyrite.underfitting(pyrite.MAE(), 100))
