"""`python -m autodiff` is the console command."""

from .cli import main

main()
