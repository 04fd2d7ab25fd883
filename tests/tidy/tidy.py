#!/usr/bin/env python3
"""Checks the style rules that are bugs when broken; prints file:line: rule: message.

    tidy.py [ROOT]      default: the tree that this file is in

The rules and their reasons are the style guide's: who may include whom (§2),
and of §6-8 what the compiler does not catch. A lexer and bracket matching, no
parser: what it cannot see, clang-tidy and the reader must.
"""
import bisect
import os
import re
import sys

PRODUCT = ("core", "nvme", "transport", "transport/verbs", "transport/iwarp",
           "blockdev", "target", "initiator")
TOP_FOLDERS = ("core", "nvme", "transport", "blockdev", "target", "initiator",
               "tests", "tools")

# Folder -> folders of ours that it may include besides itself.
MAY_INCLUDE = {
    "core": (),
    "nvme": ("core",),
    "transport/verbs": ("core",),
    "transport/iwarp": ("core", "transport/verbs"),
    "transport": ("core", "nvme", "transport/verbs"),
    "blockdev": ("core",),
    "target": ("core", "nvme", "transport", "transport/verbs", "transport/iwarp", "blockdev"),
    "initiator": ("core", "nvme", "transport", "transport/verbs", "transport/iwarp", "blockdev"),
}

# System header -> regular expression of the paths that may include it.
SYSTEM_HEADERS = (
    (r"(infiniband|rdma)/", r"(transport|tests)/"),
    (r"liburing(\.h|/)", r"(core|blockdev|tests|tools/bench)/"),
    (r"(CLI/|toml\+\+/|nlohmann/|prometheus/)",
     r"((target|initiator)/(main|flags|config|stats_json|metrics)|tests/|tools/)"),
    (r"(mutex|shared_mutex|atomic|thread|condition_variable|semaphore|latch|barrier|future|"
     r"pthread\.h|absl/synchronization/)",
     r"(core|transport/iwarp|tests|tools)/"),
)

EDGE_FILES = re.compile(r"(target|initiator)/(main|flags|config|stats_json|metrics)[^/]*\.(cc|h)$")
THREAD_FOLDERS = re.compile(r"(core|transport/iwarp)/")
LIBNVME_NAMES = ("types", "api-types", "api_types", "fabrics", "filters", "ioctl", "linux",
                 "log", "mi", "tree", "util")

THREADS = re.compile(
    r"\b(thread_local|_Thread_local|__thread|std::(\w*mutex|atomic\w*|condition_variable\w*|"
    r"j?thread|lock_guard|unique_lock|scoped_lock|shared_lock|call_once|once_flag|future|promise|"
    r"async|counting_semaphore|latch|barrier)\b|absl::(Mutex\w*|CondVar|Notification|"
    r"BlockingCounter)|pthread_\w+|__atomic_\w+|__sync_\w+)")
SLEEPS = re.compile(
    r"(?<![\w.>])(sleep|usleep|nanosleep|clock_nanosleep|absl::SleepFor|std::this_thread::sleep_\w+)\s*\(")

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|&&|\|\||<<=?|[-+*/%&|^=!<>]=|\S")
KEYWORDS_BEFORE_PAREN = {"if", "while", "switch", "for", "return", "co_return", "co_await",
                         "co_yield", "constexpr", "and", "or", "not"}
CASTS = {"static_cast", "const_cast", "reinterpret_cast"}
AWAITS = {"co_await", "co_return", "co_yield"}


def blank_comments_and_strings(text):
    """Same length and lines, with comments and literals' insides made blanks.

    Returns (code, comments): the other one blank where one has text.
    """
    pattern = re.compile(
        r'//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/'
        r'|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![\w'])'(?:\\.|[^'\\\n])+'", re.S)
    code, comments, last = [], [], 0
    blank = lambda s: re.sub(r"[^\n]", " ", s)
    for match in pattern.finditer(text):
        between, found = text[last:match.start()], match.group(0)
        code.append(between)
        comments.append(blank(between))
        if found.startswith(("//", "/*")):
            code.append(blank(found))
            comments.append(found)
        else:
            inside = blank(found[1:-1])
            code.append(found[0].replace("R", " ") + inside + found[-1])
            comments.append(blank(found))
        last = match.end()
    code.append(text[last:])
    comments.append(blank(text[last:]))
    return "".join(code), "".join(comments)


class Tokens:
    """A file's tokens, with brackets matched and braces told apart.

    brace kinds: 'block' ends the statement before it, 'init' is part of one.
    """

    def __init__(self, code):
        # Preprocessor lines are no statements.
        code = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*",
                      lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
        newlines = [m.start() for m in re.finditer("\n", code)]
        self.text, self.line = [], []
        for match in TOKEN.finditer(code):
            self.text.append(match.group(0))
            self.line.append(bisect.bisect_left(newlines, match.start()) + 1)
        self.match = {}      # index of bracket -> index of its partner
        self.parent = []     # index of token -> index of innermost open bracket, or -1
        self.kind = {}       # index of '{' -> 'block' or 'init'
        self.lambdas = {}    # index of '[' -> (index of its body's '{')
        stack = []
        for i, token in enumerate(self.text):
            if token in ")]}" and stack:
                opened = stack.pop()
                self.match[opened], self.match[i] = i, opened
            self.parent.append(stack[-1] if stack else -1)
            if token in "([{":
                stack.append(i)
        self._find_lambdas()
        bodies = set(self.lambdas.values())
        for i, token in enumerate(self.text):
            if token == "{":
                self.kind[i] = "block" if i in bodies else self._brace_kind(i)

    def at(self, i):
        return self.text[i] if 0 <= i < len(self.text) else ""

    def _find_lambdas(self):
        for i, token in enumerate(self.text):
            if token != "[" or i not in self.match:
                continue
            before = self.at(i - 1)
            if before == "[" or self.at(i + 1) == "[":
                continue  # an attribute
            if before in (")", "]") or (re.match(r"\w", before) and
                                        before not in AWAITS | {"return", "else", "do", "case"}):
                continue  # a subscript or an array
            j = self.match[i] + 1
            if self.at(j) == "<":
                depth = 0
                while j < len(self.text):
                    depth += {"<": 1, ">": -1}.get(self.at(j), 0)
                    j += 1
                    if depth == 0:
                        break
            if self.at(j) == "(" and j in self.match:
                j = self.match[j] + 1
            while j < len(self.text) and self.at(j) not in "{;,)}":
                # `-> std::function<void(int)>`, `noexcept(…)`
                j = self.match[j] + 1 if self.at(j) in "([" and j in self.match else j + 1
            if self.at(j) == "{" and j in self.match:
                self.lambdas[i] = j

    def _brace_kind(self, i):
        before = self.at(i - 1)
        if before in ("", ")", "{", "}", ";", ":", "else", "do", "try", "const", "noexcept",
                      "override", "final", "mutable"):
            # `({1}, {2})` and `{{1}}`: in an initialiser everything is one.
            parent = self.parent[i]
            if before in ("{", "}") and parent >= 0 and self.text[parent] == "{":
                return "init" if self.kind.get(parent) == "init" else "block"
            return "init" if parent >= 0 and self.text[parent] == "(" and before == "{" else "block"
        start = i - 1
        while start >= 0 and self.text[start] not in ";{}" and self.parent[start] == self.parent[i]:
            start -= 1
        while start >= 0 and self.text[start] not in ";{}":  # step over brackets
            if self.text[start] in ")]" and start in self.match:
                start = self.match[start]
            elif self.parent[start] != self.parent[i] and self.text[start] in "([":
                break
            start -= 1
        words = self.text[start + 1:i]
        if words and words[0] in ("template", "extern", "inline", "typedef", "export"):
            words = [w for w in words if w in ("namespace", "class", "struct", "union", "enum",
                                              "concept", "extern", "=")]
        if words and words[0] in ("namespace", "class", "struct", "union", "enum", "extern") \
                and "=" not in words:
            return "block"
        if "->" in words and words[0] == "auto" and "=" not in words:
            return "block"  # auto F() -> T {
        return "init"

    def brackets_around(self, i):
        """Indices of the open brackets around token i, innermost first."""
        around, p = [], self.parent[i]
        while p >= 0:
            around.append(p)
            p = self.parent[p]
        return around

    def unit(self, i):
        """(first, last+1) of the full expression that token i is in.

        A statement between block braces and semicolons; the parenthesis of an
        if, while, switch or for stands for itself.
        """
        limit = -1, len(self.text)  # the innermost bracket that bounds the unit
        for p in self.brackets_around(i):
            control = self.text[p] == "(" and self.at(p - 1) in ("if", "while", "switch", "for") or \
                self.text[p] == "(" and self.at(p - 1) == "constexpr" and self.at(p - 2) == "if"
            if (self.text[p] == "{" and self.kind[p] == "block") or control:
                limit = p, self.match.get(p, len(self.text))
                break
        bracket = limit[0]
        first, j = bracket + 1, bracket + 1
        while j < limit[1]:
            token = self.text[j]
            ends = token == ";" or (token == "{" and self.kind.get(j) == "block"
                                    and j not in self.lambdas.values())
            header = token == "(" and (self.at(j - 1) in ("if", "while", "switch", "for") or
                                       (self.at(j - 1) == "constexpr" and self.at(j - 2) == "if"))
            after = self.match.get(j, limit[1]) + 1 if token in "([{" else j + 1
            if ends or header:
                if first <= i < j:
                    return first, j
                first = after
            elif token in (":",) and self.at(first) in ("case", "default"):
                first = after
            j = after
        return first, limit[1]


def check_awaits(tokens):
    t = tokens
    for start, body in t.lambdas.items():
        end, j = t.match[body], body
        while j < end:
            if j in t.lambdas:  # an inner one speaks for itself
                j = t.match[t.lambdas[j]] + 1
                continue
            if t.text[j] in AWAITS:
                yield (t.line[start], "lambda-coroutine",
                       "no lambda is a coroutine: its captures die before its frame; write a named function")
                break
            j += 1

    for i, token in enumerate(t.text):
        if token != "co_await" or t.at(i - 1) == "operator":
            continue
        first, last = t.unit(i)
        around = [p for p in t.brackets_around(i) if p >= first]
        for p in around:
            before = t.at(p - 1)
            if t.text[p] == "{":
                yield (t.line[i], "await-brace", "co_await inside a brace-built object; name the result first")
            elif t.text[p] == "[":
                yield (t.line[i], "await-argument", "co_await inside a subscript; name the result first")
            elif before == ">":
                depth, k = 0, p - 1
                while k >= first:
                    depth += {">": 1, "<": -1}.get(t.text[k], 0)
                    if depth == 0:
                        break
                    k -= 1
                if t.at(k - 1) not in CASTS:
                    yield (t.line[i], "await-argument", "co_await inside an argument list; name the result first")
            elif (re.match(r"[A-Za-z_]", before) and before not in KEYWORDS_BEFORE_PAREN and
                  not before.startswith("SLUICE_CO_")) or before in (")", "]"):
                yield (t.line[i], "await-argument", "co_await inside an argument list; name the result first")
        awaits = 0
        path = set(around)
        assign = next((j for j in range(first, last) if t.text[j] == "=" and
                       t.parent[j] == t.parent[first]), first)
        for j in range(first, last):
            other = t.text[j]
            if other == "co_await" and t.at(j - 1) != "operator":
                awaits += 1
                if awaits == 2 and j == i:
                    yield (t.line[i], "await-twice", "one co_await a statement")
            elif other in ("?", "&&", "||", "and", "or"):
                if other == "&&" and j < assign:
                    continue  # auto&& name = …
                if all(p in path for p in t.brackets_around(j) if p >= first):
                    yield (t.line[i], "await-conditional",
                           f"co_await inside `{other}`: g++ 12.2 miscompiles it; await in a statement before")
                    break
        for j in range(first, last):
            if t.text[j] == "{" and t.kind.get(j) == "init" and j not in path:
                yield (t.line[i], "await-brace",
                       "a brace-built object in the statement of a co_await is destroyed twice by g++ 12.2; "
                       "name it in the statement before")
                break
        for j in range(first, last):
            if j in t.lambdas and t.match[j] > j + 1 and not t.lambdas[j] < i < t.match[t.lambdas[j]]:
                yield (t.line[i], "await-lambda",
                       "a capturing lambda in the statement of a co_await is destroyed twice by g++ 12.2; "
                       "name it in the statement before")
                break


def folder_of(path):
    """core/x.h -> core, transport/verbs/x.h -> transport/verbs, tests/a/b.h -> tests."""
    parts = path.split("/")
    if len(parts) > 2 and parts[0] == "transport":
        return "/".join(parts[:2])
    return parts[0]


def check_includes(path, text, exists):
    own = re.sub(r"\.cc$", ".h", path)
    folder = folder_of(path)
    seen_any = False
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quoted, name = match.group(1) == '"', match.group(2)
        if not seen_any and path.endswith(".cc") and exists(own) and name != own:
            yield number, "own-header", f'"{own}" comes first, so that it is known to stand alone'
        seen_any = True
        for header, allowed in SYSTEM_HEADERS:
            if re.match(header, name) and not (quoted and exists(name)) and not re.match(allowed, path):
                yield number, "include", f"<{name}> does not belong in {folder}/"
        if not quoted and re.match(r"(nvme/|libnvme(-mi)?\.h)", name) and not re.match(r"nvme/[^/]+\.h$", path):
            yield number, "include", f"<{name}>: libnvme's headers are included by one header of nvme/, for everybody"
        if not quoted:
            libnvmes = re.match(r"nvme/([\w-]+)\.h$", name)
            if name.split("/")[0] in TOP_FOLDERS and exists(name) and \
                    not (libnvmes and libnvmes.group(1) in LIBNVME_NAMES):
                yield number, "include", f'our own "{name}" is included with quotes'
            continue
        top = name.split("/")[0]
        if "/" not in name or name.startswith("."):
            yield number, "include", f'"{name}": ours are named from the top of the tree'
        elif top in TOP_FOLDERS and folder in MAY_INCLUDE:
            wanted = folder_of(name)
            if wanted != folder and wanted not in MAY_INCLUDE[folder]:
                yield number, "include", f"{folder}/ may not include {wanted}/"


def check_text(path, text, exists):
    """All findings of one C++ file: (line, rule, message)."""
    code, comments = blank_comments_and_strings(text)
    product = folder_of(path) in PRODUCT
    # Of the raw text: the names are in quotes. Comments' includes are no lines of code.
    visible = "\n".join(raw if kept.strip() else "" for raw, kept in zip(text.split("\n"), code.split("\n")))
    yield from check_includes(path, visible, exists)

    for number, line in enumerate(code.split("\n"), 1):
        if product and not THREAD_FOLDERS.match(path):
            for match in THREADS.finditer(line):
                yield number, "threads", f"{match.group(0)} only in core/ and transport/iwarp/; send a message instead"
        if product and not THREAD_FOLDERS.match(path) and SLEEPS.search(line):
            yield number, "blocking", "nothing sleeps but the reactor, in its ring"
        if product and re.search(r"\bthrow\b", line):
            yield number, "throw", "nothing throws; return a Status"
        if product and re.search(r"\bcatch\s*\(", line) and not EDGE_FILES.match(path):
            yield number, "catch", "only the adapters around CLI11, toml++ and JSON catch"
    for number, line in enumerate(comments.split("\n"), 1):
        yield from check_todo(number, line)

    if path.endswith(".h"):
        first = next((line.strip() for line in code.split("\n") if line.strip()), "")
        if first != "#pragma once":
            yield 1, "pragma-once", "a header's first line of code is #pragma once"
    if re.match(r"nvme/[^/]+\.h$", path) and os.path.basename(path)[:-2] in LIBNVME_NAMES:
        yield 1, "libnvme-name", "libnvme installs <nvme/" + os.path.basename(path) + ">; take another name"

    yield from check_awaits(Tokens(code))


def check_todo(number, line):
    for match in re.finditer(r"\b(TODO|FIXME|XXX)\b(\(issue-\d+\):)?", line):
        if match.group(1) != "TODO" or not match.group(2):
            yield number, "todo", "write TODO(issue-12): …, with an open issue"


def files_of(root):
    for top in TOP_FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def check_tree(root):
    """All findings of a tree: (path, line, rule, message)."""
    exists = lambda path: os.path.isfile(os.path.join(root, path))
    libnvme_headers = []
    for path in files_of(root):
        is_cpp = path.endswith((".h", ".cc"))
        if not is_cpp and not path.endswith((".sh", ".cmake", "CMakeLists.txt")):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if not is_cpp:
            for number, line in enumerate(text.split("\n"), 1):
                for finding in check_todo(number, line[line.index("#"):] if "#" in line else ""):
                    yield (path, *finding)
            continue
        for finding in check_text(path, text, exists):
            yield (path, *finding)
        if path.startswith("nvme/") and re.search(r"^\s*#\s*include\s*<(nvme/|libnvme)", text, re.M):
            libnvme_headers.append(path)
    for path in libnvme_headers[1:]:
        yield path, 1, "include", f"{libnvme_headers[0]} already includes libnvme's headers for everybody"


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv:
        print(__doc__)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")
    findings = sorted(set(check_tree(root)))
    for path, line, rule, message in findings:
        print(f"{path}:{line}: {rule}: {message}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
