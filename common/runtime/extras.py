"""How to install what a service or the command line can do without: one sentence for all errors."""


def extra_needed(what_for: str, extra: str) -> str:
    """The error where an extra of `pyproject.toml` is not installed. Nothing of ours is on the
    public package index: it is installed from a clone."""
    return f"{what_for} needs the extra `{extra}`: pip install '.[{extra}]' in the clone of Tacit"
