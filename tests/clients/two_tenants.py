"""Two tenants of one service at once: a numba program and a driver-API program, each of which checks its results.

`two_tenants.py GRIDMUX`
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 300


def main(gridmux):
    with tempfile.TemporaryDirectory(prefix="gm") as folder:
        serve = [gridmux, "-j", "serve", "--run-dir", folder, "--instance", pathlib.Path(folder).name.replace("_", "-")]
        configuration = pathlib.Path(folder) / "gridmux.toml"
        configuration.write_text("schema_version = 1\n")
        serve += ["--config", str(configuration), "--tenant", "first:2", "--tenant", "second:1"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as service:
            try:
                ready = json.loads(service.stdout.readline())
                assert "ready" in ready, ready
                return run_both(gridmux, folder)
            finally:
                service.send_signal(signal.SIGTERM)


def run_both(gridmux, folder):
    commands = {
        "first": [sys.executable, str(HERE / "numba/training.py")],
        "second": [sys.executable, str(HERE / "suite.py"), "bindings"],
    }
    running = {}
    for tenant, command in commands.items():
        words = [gridmux, "run", "--run-dir", folder, "--tenant", tenant, "--", *command]
        running[tenant] = subprocess.Popen(words)
    codes = {tenant: process.wait(PATIENCE_S) for tenant, process in running.items()}
    listed = subprocess.check_output([gridmux, "-j", "tenant", "list", "--run-dir", folder], text=True)
    launches = {tenant["name"]: tenant["launches"] for tenant in json.loads(listed)}
    print(f"exit codes {codes}, launches {launches}")
    return 0 if not any(codes.values()) and all(launches.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
