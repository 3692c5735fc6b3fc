"""python -m scax"""

from .cli.main import app

app()
