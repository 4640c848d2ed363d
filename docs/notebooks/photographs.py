# %% [markdown]
# # Wrong labels in photographs
#
# A few thousand photographs are too few to train a network from scratch. A pretrained network turns
# each photograph into an embedding, and a small head learns the classes. This notebook cuts crops from
# three photographs that are part of scikit-learn and matplotlib. The label of a crop is its photograph.
# We make 20 % of the labels wrong.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from PIL import Image
from sklearn.datasets import load_sample_image

import pyrite

photographs = {name: Image.fromarray(load_sample_image(f"{name}.jpg")) for name in ("china", "flower")}
photographs["portrait"] = Image.open(cbook.get_sample_data("grace_hopper.jpg")).convert("RGB")
names, random, side = list(photographs), np.random.default_rng(0), 112

crops, true = [], []
for label, image in enumerate(photographs.values()):
    for _ in range(100):
        left, top = random.integers(image.width - side), random.integers(image.height - side)
        crops.append(image.crop((left, top, left + side, top + side)))
        true.append(label)
noisy = pyrite.corrupt(np.array(true), "symmetric(0.2)", classes=3, seed=0)

# %% [markdown]
# Images are usually files in one folder per class:

# %%
for number, (crop, label) in enumerate(zip(crops, noisy.given, strict=True)):
    folder = Path("runs/photos", names[label])
    folder.mkdir(parents=True, exist_ok=True)
    crop.save(folder / f"{number:03}.png")

# %% [markdown]
# ## Audit
#
# `--features efficientnet_lite2` selects the pretrained network of the extra `pretrained`. It is the
# default for few colour photographs. On the command line: `pyrite audit photos/`.

# %%
audit = pyrite.audit("runs/photos", features="efficientnet_lite2(size=112)", out="runs/photographs")
print(audit.sentence)

# %% [markdown]
# The ten most suspicious labels, with the given and the suggested class:

# %%
frame = audit.to_frame()
figure, axes = plt.subplots(2, 5, figsize=(9, 4))
for axis, (_, row) in zip(axes.flat, frame.head(10).iterrows(), strict=False):
    axis.imshow(Image.open(Path("runs/photos", row["path"])))
    axis.set_title(f"{row['given']} → {row['suggested']}", fontsize=9)
    axis.axis("off")
plt.show()

# %%
numbers = [int(Path(path).stem) for path in frame.loc[frame["suspect"] == 1, "path"]]
print(f"{noisy.is_wrong[numbers].mean():.0%} of the {len(numbers)} suspects are wrong.")
print(f"{noisy.is_wrong[numbers].sum()} of the {noisy.is_wrong.sum()} wrong labels are suspects.")
