"""python -m scax.cli"""

from .main import app

app()
