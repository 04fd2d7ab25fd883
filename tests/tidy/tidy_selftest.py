#!/usr/bin/env python3
"""Each rule of tidy.py catches its bad snippet, and leaves good code alone."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

H = "// What this is.\n#pragma once\n"


def coroutine(statement):
    return "Task<void> F(Queue* queue) {\n  " + statement + "\n}\n"


# (rule, path, text): exactly this rule, at least once.
BAD = [
    ("include", "core/a.h", H + '#include "nvme/capsule.h"\n'),
    ("include", "nvme/a.h", H + '#include "transport/qp.h"\n'),
    ("include", "blockdev/a.h", H + '#include "nvme/status.h"\n'),
    ("include", "transport/verbs/a.h", H + '#include "transport/qp.h"\n'),
    ("include", "transport/a.cc", '#include "transport/iwarp/provider.h"\n'),
    ("include", "target/a.cc", '#include "initiator/queue.h"\n'),
    ("include", "initiator/a.cc", '#include "target/queue.h"\n'),
    ("include", "core/a.cc", '#include "tests/support/x.h"\n'),
    ("include", "core/a.cc", '#include "a_table.h"\n'),
    ("include", "core/a.cc", '#include "../nvme/b.h"\n'),
    ("include", "target/a.cc", "#include <infiniband/verbs.h>\n"),
    ("include", "blockdev/a.cc", "#include <rdma/rdma_cma.h>\n"),
    ("include", "transport/a.cc", "#include <liburing.h>\n"),
    ("include", "target/queue.cc", "#include <CLI/CLI.hpp>\n"),
    ("include", "core/a.cc", "#include <nlohmann/json.hpp>\n"),
    ("include", "target/queue.cc", "#include <toml++/toml.h>\n"),
    ("include", "target/a.cc", "#include <mutex>\n"),
    ("include", "target/a.cc", "#include <nvme/types.h>\n"),
    ("include", "nvme/b.h", H + "#include <nvme/types.h>\n"),  # see PRESENT
    ("threads", "target/a.cc", "std::mutex m;\n"),
    ("threads", "blockdev/a.cc", "std::atomic<int> a;\n"),
    ("threads", "transport/a.cc", "thread_local int a;\n"),
    ("threads", "nvme/a.cc", "absl::Mutex m;\n"),
    ("blocking", "target/a.cc", "void F() { usleep(5); }\n"),
    ("blocking", "target/a.cc", "void F() { absl::SleepFor(t); }\n"),
    ("throw", "core/a.cc", "void F() { throw 1; }\n"),
    ("catch", "core/a.cc", "void F() { try { G(); } catch (...) { } }\n"),
    ("catch", "target/queue.cc", "void F() { try { G(); } catch (int e) { } }\n"),
    ("pragma-once", "core/a.h", "#ifndef A\n#define A\n#endif\n"),
    ("pragma-once", "core/a.h", "// Nothing.\nint f();\n"),
    ("todo", "core/a.cc", "// TODO: later\n"),
    ("todo", "core/a.cc", "/* FIXME */\n"),
    ("todo", "tools/a.sh", "true # TODO(me) later\n"),
    ("own-header", "core/known.cc", '#include <vector>\n\n#include "core/known.h"\n'),
    ("libnvme-name", "nvme/log.h", H),
    ("libnvme-name", "nvme/types.h", H),
    ("lambda-coroutine", "core/a.cc", "auto f = []() -> Task<void> { co_return; };\n"),
    ("lambda-coroutine", "core/a.cc", "void F() { Run([x] { co_await x; }); }\n"),
    ("lambda-coroutine", "core/a.cc", "void F() { Run([](int a) mutable -> Task<int> { co_return a; }); }\n"),
    ("lambda-coroutine", "core/a.cc", "auto f = []<typename T>(T t) -> Task<T> { co_return t; };\n"),
    ("await-conditional", "core/a.cc", coroutine("int a = b ? co_await G() : 2;")),
    ("await-conditional", "core/a.cc", coroutine("int a = co_await G() ? 1 : 2;")),
    ("await-conditional", "core/a.cc", coroutine("if (ok && co_await G()) return;")),
    ("await-conditional", "core/a.cc", coroutine("while ((co_await G()).ok() || again) {}")),
    ("await-conditional", "core/a.cc", coroutine("bool a = !(co_await G()) and b;")),
    ("await-argument", "core/a.cc", coroutine("Use(co_await G());")),
    ("await-argument", "core/a.cc", coroutine("Use(1, (co_await G()).value);")),
    ("await-argument", "core/a.cc", coroutine("auto a = std::make_pair<int>(co_await G());")),
    ("await-argument", "core/a.cc", coroutine("Thing a(co_await G());")),
    ("await-argument", "core/a.cc", coroutine("EXPECT_EQ(co_await G(), 3);")),
    ("await-argument", "core/a.cc", coroutine("a[co_await G()] = 3;")),
    ("await-brace", "core/a.cc", coroutine("Thing a{co_await G()};")),
    ("await-brace", "core/a.cc", coroutine("co_await G(Options{1, 2});")),
    ("await-brace", "core/a.cc", coroutine("int a = co_await G({.depth = 3});")),
    ("await-brace", "core/a.cc", coroutine("co_await G({{1, 2}, {3, 4}});")),
    ("await-brace", "core/a.cc", coroutine("if (x) {\n y();\n } else co_await G(Options{});")),
    ("await-lambda", "core/a.cc", coroutine("co_await G([&] { return queue; });")),
    ("await-twice", "core/a.cc", coroutine("int a = (co_await G()) + (co_await G());")),
]

GOOD = [
    ("core/a.h", H + "#include <mutex>\nstruct A { std::mutex m; };\n"),
    ("core/a.cc", '#include "absl/status/status.h"\n// a mutex, TODO(issue-3): throw it out\n'),
    ("core/a.cc", 'const char* a = "throw TODO catch (x) std::mutex";\n'),
    ("core/a.cc", "const char* a = R\"(throw { [x] { co_await y; } \")\";\nint b = 1'000;\n"),
    ("core/known.cc", '#include "core/known.h"\n\n#include <vector>\n'),
    ("core/a.cc", "#include <liburing.h>\n"),
    ("transport/a.cc", '#include <infiniband/verbs.h>\n\n#include "transport/verbs/verbs_api.h"\n#include "nvme/c.h"\n'),
    ("transport/iwarp/a.cc", '#include <atomic>\n#include "core/check.h"\nstd::atomic<int> a;\n'),
    ("target/main.cc", '#include <CLI/CLI.hpp>\n#include "transport/iwarp/provider.h"\n'),
    ("target/flags.cc", "#include <CLI/CLI.hpp>\nvoid F() { try { G(); } catch (int e) { } }\n"),
    ("target/config_toml.cc", "#include <toml++/toml.h>\n"),
    ("tests/unit/core/a_test.cc", '#include <infiniband/verbs.h>\n#include "target/queue.h"\nstd::mutex m;\n'),
    ("nvme/identify.h", H),
    ("core/a.cc", "auto f = [](int a) { return a; };\nint g[3] = {1, 2, 3};\n[[nodiscard]] int h();\n"),
    ("core/a.cc", coroutine("co_await G();")),
    ("core/a.cc", coroutine("int a = co_await G();")),
    ("core/a.cc", coroutine("if (a && b) status = co_await G(x ? 1 : 2, y && z);")),
    ("core/a.cc", coroutine("if (a || !b) {\n co_await G();\n }")),
    ("core/a.cc", coroutine("while (co_await G()) {}")),
    ("core/a.cc", coroutine("for (int i = 0; i < 3 && x; ++i) co_await G(i);")),
    ("core/a.cc", coroutine("auto&& a = co_await G();")),
    ("core/a.cc", coroutine("static_cast<void>(co_await G());")),
    ("core/a.cc", coroutine("Options o{1, 2};\n  auto f = [queue] { return queue; };\n  co_await G(o, f);")),
    ("core/a.cc", coroutine("co_await G([] { return 1; });")),
    ("target/a.cc", coroutine("co_await SleepFor(reactor, absl::Seconds(1));")),
    ("core/a.cc", coroutine("co_return co_await G();")),
    ("core/a.cc", coroutine("switch (a) {\n case 1: co_await G(); break;\n default: co_return; }")),
    ("core/a.cc", coroutine("SLUICE_CO_RETURN_IF_ERROR(co_await G());")),
    ("core/a.cc", "struct A : B {\n  A() : a_(1), b_{2} { F(); }\n};\nTask<void> A::G() const {\n  co_await H();\n}\n"),
    ("core/a.cc", "namespace a {\nnamespace {\nTask<void> A::G() {\n  bool b = x && y;\n  co_await H();\n}\n}\n}\n"),
    ("core/a.cc", "auto operator co_await() { return Awaiter{this}; }\n"),
]

# Files that the snippets' tree has besides.
PRESENT = {"core/known.h": H, "nvme/a_libnvme.h": H + "#include <nvme/types.h>\n"}


def findings_of(path, text):
    with tempfile.TemporaryDirectory() as root:
        for name, content in {**PRESENT, path: text}.items():
            full = os.path.join(root, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(content)
        return list(tidy.check_tree(root))


class TidyTest(unittest.TestCase):
    def test_bad_snippets_are_caught_by_their_rule_alone(self):
        for rule, path, text in BAD:
            with self.subTest(rule=rule, path=path, text=text):
                found = findings_of(path, text)
                self.assertEqual({(f[0], f[2]) for f in found}, {(path, rule)})

    def test_good_snippets_pass(self):
        for path, text in GOOD:
            with self.subTest(path=path, text=text):
                self.assertEqual(findings_of(path, text), [])

    def test_line_numbers(self):
        found = findings_of("core/a.cc", "// x\n/* y\n */ int a;\n" + coroutine("Use(co_await G());"))
        self.assertEqual([(f[1], f[2]) for f in found], [(5, "await-argument")])


if __name__ == "__main__":
    unittest.main()
