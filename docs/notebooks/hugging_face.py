# %% [markdown]
# # Fine-tuning with Hugging Face
#
# `pyrite.hf_loss` is the `compute_loss_func` of the `Trainer`. This notebook runs without a network
# connection, so it trains a small BERT from scratch on synthetic sentences with 30 % wrong labels. For
# your own model, replace `model` and `train_dataset`.

# %%
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

import pyrite

random = np.random.default_rng(0)
topics = random.permutation(90).reshape(3, 30)  # the words of each topic
true = random.integers(3, size=900)
words = [np.where(random.random(12) < 0.6, random.choice(topics[t], 12), random.integers(90, size=12)) for t in true]
noisy = pyrite.corrupt(true, "symmetric(0.3)", classes=3, seed=0)
samples = [{"input_ids": torch.tensor(w + 1), "labels": int(y)} for w, y in zip(words, noisy.given, strict=True)]


def accuracy(loss: str) -> float:
    """The accuracy on the true labels of 300 other sentences, after training with this loss."""
    set_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, num_labels=3
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            "runs/bert",
            num_train_epochs=25,
            per_device_train_batch_size=50,
            learning_rate=2e-3,
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=samples[:600],
        compute_loss_func=pyrite.hf_loss(loss),  # the one line
    )
    trainer.train()
    predicted = trainer.predict(samples[600:]).predictions.argmax(1)
    return float(np.mean(predicted == true[600:]))


found = {name: accuracy(name) for name in ("ce", "gce(q=0.7)", "0.7*nce + 0.15*mae")}

# %% [markdown]
# The accuracy on the true test labels, for each loss:

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(5, 2.5))
axis.bar_label(axis.barh(list(found), list(found.values())), fmt="{:.1%}")
axis.set_xlabel("test accuracy")
axis.set_xlim(0, 1)
plt.show()
