"""`python -m app.cli`: the same as `moab`."""

from app.cli import main

main()
