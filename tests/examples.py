"""An instance of everything a registry holds, so that a contract test finds what is new by itself."""

import inspect

import pyrite

CLASSES = 5
MATRIX = [[0.6 if i == j else 0.1 for j in range(CLASSES)] for i in range(CLASSES)]

# What stands for an argument without a default, by its name.
ARGUMENTS = {
    "curve": lambda: pyrite.MAE(),
    "loss": lambda: pyrite.CE(),
    "tau": lambda: 2.0,
    "matrix": lambda: MATRIX,
}

# More than the defaults: corners of the parameters, and sums.
SPECS = [
    "focal(q=0.5)",
    "gce(q=1)",
    "gce(q=0.05)",
    "sce(q=0.1)",
    "tce(q=1)",
    "tce(q=12)",
    "aul(a=3.0, q=0.7)",
    "aul(a=2, q=2)",
    "agce(a=1.6, q=2)",
    "agce(a=3, q=4.0)",
    "ael(q=0.2)",
    "imae(T=0)",
    "imae(T=0.5)",
    "imae(T=40)",
    "unit(scale(mae, tau=2.6, classes=100))",
    "shift(agce(a=0.1, q=0.1), tau=4.0, margin=-5.1)",
    "2*gce(q=1) + 0.5*ce",
    "0.7*nce + 0.3*mae",
    "nce + rce(A=-4)",
    "unit(0.7*nce + 0.15*mae, classes=5)",
    "nce + aul(a=1.1, q=5)",
    "10*nce + 0.1*agce(a=6, q=1.5)",
    "normalised(gce(q=0.7))",
    "normalised(focal(q=0.5))",
    "mse(alpha=0)",
    "mse(alpha=1.5)",
    "smooth(gce(q=0.7), rate=-0.5)",
    "confidence(ce, beta=2, prior=[0.1, 0.2, 0.3, 0.2, 0.2])",
    "peer(gce(q=0.7), alpha=0.5)",
    f"forward(matrix={MATRIX}, curve=gce(q=0.7))",
    f"backward(matrix={MATRIX}, loss=mae)",
]


def instance(name: str) -> pyrite.Loss:
    factory = pyrite.LOSSES[name]
    required = [
        parameter.name
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    arguments = {parameter: ARGUMENTS[parameter]() for parameter in required}
    if name in ("shift", "scale"):
        arguments["classes"] = CLASSES
    return factory(**arguments)


def losses() -> dict[str, pyrite.Loss]:
    """Every registered loss, and the corners above, by its spec string."""
    found = [instance(name) for name in pyrite.LOSSES] + [pyrite.loss(spec) for spec in SPECS]
    return {str(loss): loss for loss in found}


def curves() -> dict[str, pyrite.Curve]:
    return {spec: loss for spec, loss in losses().items() if isinstance(loss, pyrite.Curve)}


METHOD_EXAMPLES = {
    "cross_fit": "cross_fit(erm(ce))",
    "erm": "erm(gce(q=0.7))",
    "meta_weight": "meta_weight(size=13, hidden=5, lr=0.5)",
    "l2rw": "l2rw(mae, size=13)",
    "bilevel": "bilevel(splits=3)",
    "self_corrected": "self_corrected(at=0.5)",
    "select": "select(erm(ce), elr)",
    "staged": "staged(erm(ce), erm(mae), at=0.5, restart=True)",
    "glc": "glc(size=13)",
    "fine_tune": "fine_tune(size=13, at=0.5)",
    "d2l": "d2l(k=5, window=2, skip=0)",
    "sop": "sop(consistency=0.9, balance=0.1)",
}
"""Methods as the contract tests call them: small enough for 45 samples. Those that are not here take no arguments."""
