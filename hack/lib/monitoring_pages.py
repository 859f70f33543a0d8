"""What the programs print for Prometheus, as they print it when they have just begun.

In: the folder of programs, and one for the pages. Out: NAME.prom for each. The operator gets an API server that takes its
connections and says nothing: it waits, and tells how it is. What a super-disk and the agent of a database print needs
one; their pages are those that their crates' tests hold them to.
"""

import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = 60


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


def until(what, look):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{what} took longer than {PATIENCE} s")


def of_service(program, scratch):
    log = scratch / "readstates.log"
    ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--watch-listen", "127.0.0.1:0"]
    with log.open("w") as out, subprocess.Popen([program, "serve", *ports, "--store", "memory"], stdout=out, stderr=out) as member:
        try:
            watch = until("readstates serve", lambda: re.search(r'"watch":"([^"]+)"', log.read_text()))
            return fetch(f"http://{watch[1]}/metrics")
        finally:
            member.terminate()


def of_operator(program, scratch):
    silent = socket.create_server(("127.0.0.1", 0))
    config = scratch / "kubeconfig"
    server = f"http://127.0.0.1:{silent.getsockname()[1]}"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        f" clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    images = ["--readstates-image", "readstates", "--agent-image", "operator"]
    command = [program, "run", "--listen", f"127.0.0.1:{port}", *images]
    with (scratch / "operator.log").open("w") as out:
        operator = subprocess.Popen(command, stdout=out, stderr=out, env={"KUBECONFIG": str(config)})
    try:

        def page():
            if operator.poll() is not None:
                raise SystemExit(f"{' '.join(map(str, command))} ended: {(scratch / 'operator.log').read_text()}")
            try:
                return fetch(f"http://127.0.0.1:{port}/metrics")
            except OSError:
                return None

        return until("operator run", page)
    finally:
        operator.kill()
        operator.wait()
        silent.close()


def main(programs, pages):
    programs, pages = pathlib.Path(programs), pathlib.Path(pages)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (pages / "readstates.prom").write_text(of_service(programs / "readstates", scratch))
        (pages / "operator.prom").write_text(of_operator(programs / "operator", scratch))
    shutil.copy(ROOT / "operator/superdisk/src/metrics.prom", pages / "superdisk.prom")
    shutil.copy(ROOT / "operator/agent/src/metrics.prom", pages / "agent.prom")


if __name__ == "__main__":
    main(*sys.argv[1:])
