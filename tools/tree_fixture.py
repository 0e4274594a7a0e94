"""TreeFixture: a test of a check that reads a tree of files, of which it makes one in a folder of its own."""

import pathlib
import tempfile
import unittest


class TreeFixture(unittest.TestCase):
    check_tree = None  # of the root: what is wrong there

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def found(self):
        return type(self).check_tree(self.root)

    def expect_only(self, part):
        """One thing is wrong, and what is said of it has that part."""
        found = self.found()
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])
