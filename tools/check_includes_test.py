#!/usr/bin/env python3
"""Shows that check_includes.py passes files that include what they use and names what others lack."""

import unittest

import check_includes
from tree_fixture import TreeFixture


class CheckIncludesTest(TreeFixture):
    check_tree = staticmethod(check_includes.check_tree)

    def setUp(self):
        super().setUp()
        self.write("src/base/list.h", "#include <vector>\nstd::vector<int> list();\n")
        self.write("src/base/list.cc", '#include "base/list.h"\n\nstd::vector<int> list() { return {}; }\n')

    def test_what_other_files_include_counts(self):
        self.assertEqual(self.found(), [])

    def test_a_header_that_is_missing(self):
        self.write("src/base/more.cc", '#include "base/list.h"\n\nstd::string text;\n')
        self.expect_only("src/base/more.cc: uses string and does not include <string>")

    def test_a_header_has_what_it_uses_by_itself(self):
        self.write("src/base/more.h", "std::mutex lock;\n")
        self.write("src/base/more.cc", '#include <mutex>\n#include "base/more.h"\n')
        self.expect_only("src/base/more.h: uses mutex")

    def test_headers_of_tests(self):
        self.write("src/base/list_test.cc", '#include "base/list.h"\n\nTEST(List, IsEmpty) {}\n')
        self.expect_only("uses TEST and does not include <gtest/gtest.h>")

    def test_comments_and_texts_use_nothing(self):
        self.write("src/base/more.cc", '// std::string\nconst char* text = "std::string";\n')
        self.assertEqual(self.found(), [])

    def test_what_is_precompiled_is_known(self):
        self.write("cmake/IsothermPrecompile.cmake", "set(ISOTHERM_PRECOMPILED <vector>\n  <valarray>)\n")
        self.expect_only("nothing says what <valarray> is for")


if __name__ == "__main__":
    unittest.main()
