"""What is wrong with a file, in a sentence."""


class FileError(ValueError):
    """A file that cannot be read or written: what, where, what to do.

    >>> scax.load("no-such-file.safetensors")
    Traceback (most recent call last):
    ...
    scax.storage.errors.FileError: ...
    """
