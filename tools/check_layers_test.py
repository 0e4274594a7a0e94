#!/usr/bin/env python3
"""Shows that check_layers.py passes a clean tree and fails on each kind of violation."""

import unittest

import check_layers
from tree_fixture import TreeFixture

ESSAY = "// Thing: what it is, how it lies in memory, and who may call it from where.\n#pragma once\n"


class CheckLayersTest(TreeFixture):
    check_tree = staticmethod(check_layers.check_tree)

    def setUp(self):
        super().setUp()
        self.write("include/isotherm/store.h", ESSAY + '#include "isotherm/status.h"\n')
        self.write("src/index/view.h", ESSAY + '#include "base/hash.h"\n#include <string>\n')
        self.write("src/index/view.cc", '#include "index/view.h"\n#include "isotherm/status.h"\n')

    def test_clean_tree_passes(self):
        self.assertEqual(self.found(), [])

    def test_folder_may_not_include_one_below(self):
        self.write("src/index/bad.cc", '#include "engine/engine.h"\n')
        self.expect_only("index/ may not include engine/")

    def test_unit_tests_obey_the_order_too(self):
        self.write("src/base/hash_test.cc", '#include "index/view.h"\n')
        self.expect_only("base/ may not include index/")

    def test_only_tests_include_what_supports_tests(self):
        self.write("src/base/hash_test.cc", '#include "fake_device/fake_lane.h"\n')
        self.assertEqual(self.found(), [])
        self.write("src/base/hash.cc", '#include "fake_device/fake_lane.h"\n')
        self.expect_only("in no folder of src/")

    def test_nested_folders_have_an_order_too(self):
        self.write("src/executor/device/good.cc", '#include "executor/values/log.h"\n')
        self.assertEqual(self.found(), [])
        self.write("src/executor/values/bad.cc", '#include "executor/device/rounds.h"\n')
        self.expect_only("executor/values may not include executor/device")

    def test_nested_folder_without_an_order(self):
        self.write("src/executor/misc/bad.cc", "int x;\n")
        self.expect_only("executor/ has no folder misc/")

    def test_headers_that_include_each_other(self):
        self.write("src/items/one.h", ESSAY + '#include "items/two.h"\n')
        self.write("src/items/two.h", ESSAY + '#include "items/one.h"\n')
        self.expect_only("includes itself")

    def test_include_is_a_path_from_src(self):
        self.write("src/index/bad.cc", '#include "view.h"\n')
        self.expect_only("include by path from src/")

    def test_unknown_folder_in_include(self):
        self.write("src/index/bad.cc", '#include "misc/view.h"\n')
        self.expect_only("in no folder of src/")

    def test_file_outside_the_layers(self):
        self.write("src/misc/view.cc", "int x;\n")
        self.expect_only("belongs into a folder")

    def test_public_header_includes_public_headers_only(self):
        self.write("include/isotherm/bad.h", ESSAY + '#include "base/hash.h"\n')
        self.expect_only("public header may not include")

    def test_header_without_essay(self):
        self.write("src/index/bad.h", "#pragma once\nint f();\n")
        self.expect_only("opens with a comment")

    def test_header_without_pragma_once(self):
        self.write("src/index/bad.h", ESSAY.replace("#pragma once\n", ""))
        self.expect_only("#pragma once")

    def test_documentation_names_files_that_are_there(self):
        self.write("docs/papers.md", "See `src/index/view.h`, `view.cc` and `xxhash.h`.\n")
        self.write("docs/map.md", "`view.h`, then `index/view.cc`\n## Where is\n`Status::ok`\n")
        self.write("src/index/status.h", ESSAY + "enum class Status { ok };\n")
        self.assertEqual(self.found(), [])
        self.write("README.md", "See `src/index/gone.h`.\n")
        self.expect_only("there is no file src/index/gone.h")

    def test_comments_name_files_that_are_there(self):
        self.write("src/index/a.cc", "int a;  // see index/view.h, <linux/gone.h>\n// and line.h\n")
        self.assertEqual(self.found(), [])
        self.write("src/index/b.cc", "// As index/gone.h says.\n")
        self.expect_only("there is no file index/gone.h")

    def test_the_map_names_code_that_is_there(self):
        self.write("docs/map.md", "## Where is\n`gone` in `index/view.h`\n## Words\n`gone`\n")
        self.expect_only("nothing is called gone")

    def test_public_headers_in_a_circle(self):
        self.write("include/isotherm/status.h", ESSAY + '#include "isotherm/store.h"\n')
        self.expect_only("includes itself")

    def test_types_of_one_name(self):
        self.write("src/base/one.h", ESSAY + "namespace isotherm {\nclass Twin final : public Any {\n};\n}\n")
        self.write("src/index/two.h", ESSAY + "namespace isotherm::other {\nstruct Twin {\n};\n}\n")
        self.write("src/index/three.h", ESSAY + "namespace isotherm {\nstruct Twin;\nclass Twin::Of {\n};\n}\n")
        self.assertEqual(self.found(), [])
        self.write("src/index/two.h", ESSAY + "namespace isotherm {\nstruct Twin {\n};\n}\n")
        self.expect_only("isotherm::Twin is a type of src/base/one.h:")

    def test_long_file(self):
        self.write("tests/python/long.py", "x = 1\n" * check_layers.MAX_LINES)
        self.expect_only("the limit is")


if __name__ == "__main__":
    unittest.main()
