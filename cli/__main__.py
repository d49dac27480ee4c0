"""Lets `python -m stitchjam.cli` run the command line."""

from stitchjam.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
