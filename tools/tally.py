#!/usr/bin/env python3
"""Turns one ctest run into result lines for tools/check.

    tally.py STAGE JUNIT_FILE GTEST_FOLDER LOG

Prints STAGE <tab> pass|fail|skip <tab> name <tab> reason, one line a test. A
GoogleTest program counts by its own tests, from the XML that it left in
GTEST_FOLDER; one that failed without a failed test (a crash, a time limit, a
sanitizer at exit) adds one failure, and any other ctest counts as one. The end
of what a failed ctest printed goes to standard error.
"""
import glob
import os
import re
import sys
import xml.etree.ElementTree as xml


def gtest_results(path):
    """(status, name, reason) of each test of one program."""
    for case in xml.parse(path).getroot().iter("testcase"):
        name = case.get("classname", "") + "." + case.get("name", "")
        failure, skipped = case.find("failure"), case.find("skipped")
        if failure is not None:
            yield "fail", name, first_line(failure.get("message"))
        elif skipped is not None or case.get("result") == "skipped":
            # The message is "file:line", then the reason.
            text = (skipped.get("message") if skipped is not None else "") or ""
            lines = [l for l in text.split("\n") if l.strip() and not re.match(r"\S+:\d+$", l.strip())]
            yield "skip", name, first_line("\n".join(lines)) or "no reason given"
        elif case.get("status") == "run":
            yield "pass", name, ""


def first_line(text):
    lines = [line.strip() for line in (text or "").split("\n") if line.strip()]
    return " / ".join(lines[:2])[:200]


SHOWN_LINES = 30


def show_output(case):
    """The end of what a failed ctest printed, to standard error."""
    lines = (case.findtext("system-out") or "").rstrip().split("\n")
    print(f"-- {case.get('name')} failed after {float(case.get('time') or 0):.0f} s; its last lines:",
          file=sys.stderr)
    for line in lines[-SHOWN_LINES:]:
        print("   | " + line[:300], file=sys.stderr)


def results(junit, folder):
    for case in xml.parse(junit).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        own = []
        for path in sorted(glob.glob(os.path.join(folder, name + ".xml")) +
                           glob.glob(os.path.join(folder, name + "_[0-9]*.xml"))):
            try:
                own += list(gtest_results(path))
            except xml.ParseError:
                pass  # cut off: the program died, and its ctest failed
        for one, test, reason in own:
            yield one, f"{name}: {test}", reason
        failed = status == "fail" or case.find("failure") is not None
        if failed:
            show_output(case)
        if failed and not any(one == "fail" for one, _, _ in own):
            reason = case.find("failure")
            yield "fail", name, first_line(reason.get("message") if reason is not None else "") or "failed"
        elif not own and not failed:
            skipped = case.find("skipped")
            if skipped is not None or status in ("notrun", "disabled"):
                yield "skip", name, first_line(skipped.get("message") if skipped is not None else status)
            else:
                yield "pass", name, ""


def main():
    if len(sys.argv) != 5:
        print(__doc__)
        return 2
    stage, junit, folder, log = sys.argv[1:]
    for status, name, reason in results(junit, folder):
        if status == "fail":
            reason = f"{reason} [{log}]"
        print("\t".join((stage, status, name, reason.replace("\t", " "))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
