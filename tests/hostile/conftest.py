"""The hostile suite uses the servers and sockets of tests/python."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
