"""python -m scax"""

from .cli import app

app()
