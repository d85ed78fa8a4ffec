"""Runs one suite with pytest and reports each test in a line, as `cargo xtask test` reads it.

`suite.py FOLDER` runs the tests of a folder beside this file; `suite.py numba-cuda` those of numba-cuda's own that
`numba_tests.txt` names. Arguments after that go to pytest.
"""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
# Where numba-cuda keeps its tests.
NUMBA_TESTS = "numba.cuda.tests"


class Reporter:
    """Prints a line for each test, instead of pytest's dots."""

    def __init__(self, suite):
        self.suite = suite

    def pytest_sessionstart(self, session):
        self.terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        # Workers of pytest-xdist report through the process that started them.
        self.is_worker = hasattr(session.config, "workerinput")
        self.say(f"Running {self.suite} (target/{self.suite}-0)")
        self.say("running 1 test")

    def say(self, text):
        if not self.is_worker and self.terminal is not None:
            self.terminal.write_line(text)

    def pytest_report_teststatus(self, report):
        outcome = report.outcome if report.when == "call" or report.outcome != "passed" else ""
        return outcome, "", ""

    def pytest_runtest_logreport(self, report):
        # Of an installed module pytest tells the tests without their module, so it is taken from the file's name.
        module = report.location[0].rsplit("/", 1)[-1].removesuffix(".py")
        name = f"{module}::{report.nodeid.split('::', 1)[-1]}"
        if report.outcome == "skipped":
            skipped = isinstance(report.longrepr, tuple)
            reason = report.longrepr[2] if skipped else getattr(report, "wasxfail", "")
            reason = (str(reason).splitlines() or ["expected to fail"])[0]
            self.say(f"test {name} ... ignored, {reason}")
        elif report.outcome == "failed":
            self.say(f"test {name} ... FAILED")
        elif report.when == "call":
            self.say(f"test {name} ... ok")

    def pytest_sessionfinish(self, exitstatus):
        self.say("test result: done")


class NumbaCuda:
    """What numba-cuda's tests expect of the repository that they come from, and which of them are left out."""

    def __init__(self, left_out):
        self.left_out = left_out

    @pytest.fixture
    def initialize_from_pytest_config(self, request):
        request.cls._dump_failed_filechecks = False

    # First, so that it sees every test, whatever the arguments select.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        kept, unmatched = [], {(module, left) for module, names in self.left_out.items() for left in names}
        for item in items:
            # What pytest takes for the package's name depends on how it was installed.
            module = item.module.__name__.rsplit("cuda.tests.", 1)[-1]
            name = item.nodeid.split("::", 1)[1]
            matched = [left for left in self.left_out.get(module, ()) if name == left or name.startswith(f"{left}::")]
            unmatched.difference_update((module, left) for left in matched)
            if not matched:
                kept.append(item)
        if unmatched:
            names = ", ".join(sorted(f"{module}::{left}" for module, left in unmatched))
            problem = "numba_tests.txt leaves out what is no test; remove the lines unless a module above failed"
            raise pytest.UsageError(f"{problem}: {names}")
        items[:] = kept


def numba_list():
    """The modules to run, and by module the tests and classes that are left out."""
    modules, left_out = [], {}
    for line in (HERE / "numba_tests.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "run":
            modules.append(rest.strip())
        elif word == "except":
            module, name = rest.split(": ", 1)[0].split("::", 1)
            left_out.setdefault(module, set()).add(name)
        elif word not in ("", "#", "leave"):
            sys.exit(f"numba_tests.txt: a line begins with `run`, `except`, `leave` or `#`: {line}")
    return modules, left_out


def main():
    suite, *more = sys.argv[1:]
    # Without progress in per cent, which would stand in front of a line of ours.
    arguments = ["-q", "--no-header", "-rN", "-p", "no:cacheprovider", "-o", "console_output_style=classic"]
    plugins = [Reporter(suite)]
    if suite == "numba-cuda":
        modules, left_out = numba_list()
        plugins.append(NumbaCuda(left_out))
        # By their names in the namespace package, so that processes that a test spawns find its module.
        arguments += ["--import-mode=importlib", "-o", "consider_namespace_packages=true"]
        arguments += ["--pyargs", *(f"{NUMBA_TESTS}.{module}" for module in modules)]
    else:
        arguments += [f"--rootdir={HERE}", str(HERE / suite)]
    return pytest.main(arguments + more, plugins=plugins)


if __name__ == "__main__":
    sys.exit(main())
