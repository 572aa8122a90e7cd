#!/usr/bin/env python3
"""Shows what tools/check_includes.py refuses, on small trees.

usage: includes_test.py [XML_FILE]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from case_xml import run_test_case  # noqa: E402  found by the line above

PAGE = """
| folder | what | may include |
|---|---|---|
| core | the lowest | - |
| data | files | core |
| nn | layers | core |
| train | runs | as nn, nn |
| tasks/*/front | options | core |
| tasks/*/engine | networks | as train, train |
| cli | programs | everything of its half |

LibTorch is included only in nn, train, tasks/*/engine and cli/engine; c10d only in comm.
"""

# A tree in which every arrow of the page is used.
USES = {"core/error.h": "", "data/use.cpp": '#include "core/error.h"\n', "nn/use.cpp": '#include "core/error.h"\n',
        "train/use.cpp": '#include "core/error.h"\n#include "nn/layer.h"\n',
        "tasks/gpt/front/use.cpp": '#include "core/error.h"\n',
        "tasks/gpt/engine/use.cpp": '#include "core/error.h"\n#include "nn/layer.h"\n#include "train/run.h"\n'}


class Includes(unittest.TestCase):
    def problems_of(self, files):
        """What the check prints of a tree with these files, path -> text; "" where it finds nothing."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "ARCHITECTURE.md").write_text(PAGE)
            for path, text in {**USES, **files}.items():
                (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / "src" / path).write_text(text)
            done = subprocess.run(
                [sys.executable, str(ROOT / "tools/check_includes.py"), name],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.stderr, "")
            # The whole line: paths of problems may hold "ok", as the names of temporary folders do now and then.
            self.assertEqual(done.returncode, 0 if done.stdout == "include directions: ok\n" else 1)
            return done.stdout if done.returncode else ""

    def test_output_that_nothing_cleans_is_refused(self):
        for line in ("std::cout << x;", "std::printf(x);", 'fmt::print("{}", x);', "std::fputs(x, stderr);"):
            said = self.problems_of({"data/show.cpp": line + "\n"})
            self.assertIn("show.cpp:1: ", said, line)
            self.assertIn("core::print", said)
        self.assertEqual(self.problems_of({"core/print.cpp": "std::fwrite(clean);\n",
                                           "data/show.cpp": 'core::print("{}", name);\n'}), "")

    def test_parsers_without_limits_are_refused(self):
        for line in ("core::Json::parse(text);", "nlohmann::json::parse(text);", "toml::parse(text, path);",
                     "toml::parse_file(path);"):
            said = self.problems_of({"data/show.cpp": line + "\n"})
            self.assertIn("show.cpp:1: ", said, line)
            self.assertIn("core::parse_json", said)
        self.assertEqual(self.problems_of({"core/toml.cpp": "toml::parse(text, path);\n",
                                           "data/show.cpp": "catch (const toml::parse_error& error) {\n"}), "")

    def test_loops_of_one_thread_are_refused(self):
        said = self.problems_of({"nn/norm.cpp": "at::parallel_for(0, rows, 1, use);\n"})
        self.assertIn("norm.cpp:1: at::parallel_for: use nn::parallel_for", said)
        self.assertEqual(self.problems_of({"nn/parallel_for.cpp": "at::parallel_for(begin, end, grain, use);\n"}), "")

    def test_a_task_that_can_be_cut_out_is_used_in_named_places(self):
        use = '#include "core/error.h"\n#include "tasks/imagenet/front/options.h"\n'
        task = {"tasks/imagenet/front/options.h": ""}
        said = self.problems_of({**task, "tasks/front/more.cpp": use})
        self.assertIn("more.cpp:2: tasks/imagenet/front/options.h: outside its folder only bench/loader_case.cpp", said)
        self.assertEqual(self.problems_of({**task, "tasks/tasks_front.cpp": use,
                                           "tasks/imagenet/front/more.cpp": use}), "")

    def test_what_the_table_allows_passes(self):
        self.assertEqual(
            self.problems_of(
                {
                    "nn/layer.cpp": '#include "core/error.h"\n#include <ATen/ATen.h>\n',
                    "train/run.cpp": '#include "core/error.h"\n#include "nn/layer.h"\n',
                    "cli/engine/main.cpp": '#include "train/run.h"\n#include <ATen/ATen.h>\n',
                }
            ),
            "",
        )

    def test_an_arrow_that_nothing_uses_is_refused(self):
        self.assertEqual(self.problems_of({}), "")
        text = self.problems_of({"train/use.cpp": '#include "core/error.h"\n'})
        self.assertIn("ARCHITECTURE.md: train/ may include nn/, and no file of it does: take it out of the row", text)
        self.assertEqual(text.count("\n"), 1)
        self.assertIn("tasks_engine/ may include train/", self.problems_of({"tasks/gpt/engine/use.cpp": ""}))

    def test_an_arrow_up_is_refused(self):
        self.assertIn("core/ may not include data/", self.problems_of({"core/error.cpp": '#include "data/file.h"\n'}))
        self.assertIn("train/ may not include data/", self.problems_of({"train/run.cpp": '#include "data/file.h"\n',
                                                                         "data/file.h": ""}))

    def test_the_front_program_includes_nothing_of_the_engine_half(self):
        for where in ("cli/front", "cli/common"):
            self.assertIn(f"{where}/ may not include train/",
                          self.problems_of({f"{where}/main.cpp": '#include "train/run.h"\n', "train/run.h": ""}))
            self.assertEqual(self.problems_of({f"{where}/main.cpp": '#include "data/file.h"\n', "data/file.h": ""}), "")
        self.assertIn("cli/front/ may not include tasks_engine/",
                      self.problems_of({"cli/front/main.cpp": '#include "tasks/gpt/engine/gpt.h"\n'}))
        self.assertIn("cli/front/ may not include tasks_engine/",
                      self.problems_of({"cli/front/main.cpp": '#include "tasks/tasks_engine.h"\n'}))
        self.assertEqual(self.problems_of({"cli/front/main.cpp": '#include "tasks/gpt/front/gpt.h"\n'}), "")

    def test_neither_program_includes_the_other(self):
        self.assertIn("cli/front/ may not include cli/engine/",
                      self.problems_of({"cli/front/main.cpp": '#include "cli/engine/commands.h"\n'}))
        self.assertIn("cli/engine/ may not include cli/front/",
                      self.problems_of({"cli/engine/main.cpp": '#include "cli/front/commands.h"\n'}))
        self.assertIn("cli/common/ may not include cli/front/",
                      self.problems_of({"cli/common/main.cpp": '#include "cli/front/commands.h"\n'}))
        self.assertEqual(self.problems_of({"cli/front/main.cpp": '#include "cli/common/version.h"\n'}), "")

    def test_an_include_that_is_not_named_from_src_on_is_refused(self):
        for line in (
            '#include "../train/run.h"',
            '#include "file.h"',
            '#include "rooms/shelf.h"',
            '#include <train/run.h>',
            '  #  include "./file.h"',
            '#include "core/../train/run.h"',
        ):
            text = self.problems_of({"data/file.cpp": line + "\n", "data/file.h": "", "data/rooms/shelf.h": "",
                                     "train/run.h": ""})
            self.assertIn("data/file.cpp:1: ", text, line)
            self.assertIn("from there on", text, line)

    def test_a_header_that_the_build_writes_needs_no_folder(self):
        self.assertEqual(self.problems_of({"data/file.cpp": '#include "version_info.h"\n'}), "")

    def test_an_arrow_is_seen_however_the_line_is_spaced(self):
        self.assertIn("core/ may not include data/", self.problems_of({"core/error.cpp": ' #include  "data/file.h"\n'}))
        self.assertIn("core/ may not include data/", self.problems_of({"core/error.cpp": '#  include "data/file.h"\n'}))

    def test_internal_headers_are_for_the_sources_of_their_own_folder(self):
        files = {"data/file_internal.h": ""}
        self.assertEqual(self.problems_of({**files, "data/file.cpp": '#include "data/file_internal.h"\n'}), "")
        self.assertIn("own folder", self.problems_of({**files, "data/other.h": '#include "data/file_internal.h"\n'}))
        self.assertIn("own folder", self.problems_of(
            {**files, "data/rooms/file.cpp": '#include "data/file_internal.h"\n'}))

    def test_a_folder_without_a_row_is_refused(self):
        self.assertIn("no row in the table", self.problems_of({"misc/tool.h": ""}))

    def test_a_circle_inside_a_folder_is_refused(self):
        # b.cpp counts as one with b.h, so the way back leads through a source.
        text = self.problems_of({"data/a.h": '#include "data/b.h"\n', "data/b.h": "",
                                "data/b.cpp": '#include "data/a.h"\n'})
        self.assertIn("circle of includes: data/a -> data/b -> data/a", text)

    def test_libtorch_stays_in_its_folders_and_out_of_headers(self):
        self.assertIn("free of LibTorch", self.problems_of({"data/file.cpp": "#include <ATen/ATen.h>\n"}))
        self.assertIn("free of LibTorch", self.problems_of({"cli/front/main.cpp": "#include <ATen/ATen.h>\n"}))
        self.assertIn("a header may include", self.problems_of({"nn/layer.h": "#include <ATen/ATen.h>\n"}))


if __name__ == "__main__":
    sys.exit(run_test_case(Includes, "python3 tests/tools/includes_test.py"))
