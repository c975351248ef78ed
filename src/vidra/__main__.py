"""``python -m vidra``."""

from vidra.cli import main

if __name__ == "__main__":
    main()
