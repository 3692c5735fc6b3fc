"""python -m scax.cli"""

from . import app

app()
