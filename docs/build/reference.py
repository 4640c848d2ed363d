"""A hook of MkDocs: writes the reference, a page per topic, from the public names of the package."""

from types import ModuleType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import pyrite

# The topic of a public name is that of the package or module that defines it.
TOPICS = {
    "Audits": ("auditing", "run_audits", "without_suspects"),
    "Training": ("training", "registration", "demonstration", "errors"),
    "Comparing and tuning": ("comparing", "tuning"),
    "Classifier": ("estimator",),
    "Losses": ("criterion", "curves", "losses", "soft_margin"),
    "Methods": ("methods",),
    "Data": ("data", "features"),
    "Noise": ("noise",),
    "Models": ("models", "exports"),
    "Diagnostics": ("diagnostics",),
    "Integrations": ("integrations",),
    "Papers": ("papers",),
}
REGISTRIES = {
    "DATASETS": ("Data", "data.md"),
    "FEATURES": ("Data", "embeddings.md"),
    "LOSSES": ("Losses", "losses.md"),
    "METHODS": ("Methods", "methods.md"),
    "MODELS": ("Models", "models.md"),
    "NOISES": ("Noise", "noise.md"),
    "RECIPES": ("Papers", "reproduce.md"),
}


def public_names() -> dict[str, str]:
    """The topic of each public name, such as ``pyrite.GCE``. Registries are not among them."""
    names = {f"pyrite.{name}": getattr(pyrite, name) for name in pyrite.__all__ if name not in REGISTRIES}
    public = [name for name in pyrite.diagnostics.__all__ if name.islower()]
    names |= {f"pyrite.diagnostics.{name}": getattr(pyrite.diagnostics, name) for name in public}
    modules = {name: value.__module__ for name, value in names.items() if not isinstance(value, ModuleType)}
    modules["pyrite.PyriteError"] = "pyrite.errors"  # its own name for its module is the public one
    topics = {part: topic for topic, parts in TOPICS.items() for part in parts}
    return {name: topics[module.split(".")[1]] for name, module in modules.items()}


def pages() -> dict[str, str]:
    """The content of each page of the reference, by its title."""
    content = {topic: f"# {topic}\n" for topic in TOPICS}
    for name, (topic, cards) in REGISTRIES.items():
        entries = ", ".join(f"`{entry}`" for entry in getattr(pyrite, name))
        content[topic] += f"\nThe registry `pyrite.{name}` has these entries ([cards](../{cards})): {entries}.\n"
    for name, topic in sorted(public_names().items(), key=lambda item: in_order(item[0])):
        content[topic] += f"\n::: {name}\n"
    return content


def in_order(name: str) -> tuple[bool, str]:
    """Functions before classes, because most readers look for a function."""
    return name.rpartition(".")[2][0].isupper(), name.lower()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the site."""
    for topic, content in pages().items():
        files.append(File.generated(config, path_of(topic), content=content))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the navigation."""
    section = next(entry for entry in config.nav or [] if "Reference" in entry)
    section["Reference"] = [{topic: path_of(topic)} for topic in TOPICS]
    return config


def path_of(topic: str) -> str:
    """Of the page, in the folder of the documentation."""
    return f"reference/{topic.lower().replace(' ', '-')}.md"
