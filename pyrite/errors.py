"""The exception for mistakes that a user can correct."""

__all__ = ["PyriteError"]


class PyriteError(ValueError):
    """Bad input: the message names the argument and its value. The command line prints it and exits with code 2.

    Any other ``ValueError`` is a defect of pyrite or of a library, and is shown with its traceback.

    >>> import pyrite
    >>> try:
    ...     pyrite.GCE(q=3)
    ... except PyriteError as error:
    ...     print(error)
    q is 3, but must be a number above 0 and at most 1
    """

    __module__ = "pyrite"  # the public name, in tracebacks and pickles
