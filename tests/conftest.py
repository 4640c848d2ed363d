"""Set for every test."""

import torch

# The tensors here are tiny; two threads would spend their time waiting for each other, and more so on a busy machine.
torch.set_num_threads(1)
