"""Runs the commands of README and tutorials against real processes. Called by hack/book --run.

    book_commands.py ROOT PROGRAM       PROGRAM is readstates; exit status 1 when a command does not do what the page says

A block with lines that begin with "$ " is a transcript: every command must succeed and answer what stands below it, but
for versions, and for what the page shortens with "…". In tutorials/unread-badges.md all blocks with curl are run in one
shell, and must succeed. The block of several processes is run on other ports, once all of it serves.
"""

import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

BOOK = "readstates/book/src"
TRANSCRIPTS = ["README.md", f"{BOOK}/tutorials/one-process.md"]
SHELL = [f"{BOOK}/tutorials/unread-badges.md"]
SEVERAL = ["README.md", f"{BOOK}/how-to/several-processes.md"]
# The machine may be busy with other tests.
START_SECONDS = 300
COMMAND_SECONDS = 600


def blocks(text):
    """The fenced blocks of a page."""
    return [found[2] for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)]


def transcript(block):
    """Yields (command, what it should answer) of a block."""
    command, answer = None, []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, "".join(answer)
            command, answer = line[2:], []
        elif command and command.endswith("\\"):
            command = command[:-1] + line.strip()
        elif command:
            answer.append(line.strip())
    if command:
        yield command, "".join(answer)


def without_versions(text):
    return re.sub(r'"version":"\d+"', '"version":"N"', text)


def matches(expected, answer):
    pattern = ".*".join(re.escape(part) for part in without_versions(expected).split("…"))
    return re.fullmatch(pattern, without_versions(answer)) is not None


class Members:
    """Processes in a folder of their own, which end with it."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # One after another: the others take what it hands on.
        for process, _ in self.processes:
            process.terminate()
            process.wait(timeout=COMMAND_SECONDS)
        self.folder.cleanup()

    def start(self, *arguments):
        """Starts a member, and returns the address of its API once it serves."""
        log = Path(self.folder.name, f"log-{len(self.processes)}")
        with log.open("w") as output:
            process = subprocess.Popen([self.program, *arguments], cwd=self.folder.name, stdout=output, stderr=output)
        self.processes.append((process, log))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            for line in log.read_text().splitlines():
                if line.endswith("}") and (said := json.loads(line)).get("message") == "serving":
                    return said["listen"]
            time.sleep(0.05)
        raise SystemExit(f"{shlex.join(arguments)}: does not serve\n{log.read_text()}")

    def run(self, script):
        # curl says nothing of a refusal otherwise, and goes through a proxy that the machine may have.
        preamble = "curl() { command curl --silent --show-error --fail-with-body --noproxy '*' \"$@\"; }\n"
        return subprocess.run(
            ["bash", "-euc", preamble + script], cwd=self.folder.name, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )


def run_transcripts(page, program):
    """Yields what went wrong; every page has a process of its own."""
    with Members(program) as members:
        address = members.start("serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--watch-listen", "127.0.0.1:0")
        ran = 0
        for block in blocks(page.read_text()):
            for command, expected in transcript(block):
                if not command.startswith("curl "):
                    continue
                ran += 1
                done = members.run(command.replace("localhost:7400", address))
                if done.returncode != 0:
                    yield f"{command}\n  failed: {done.stderr}{done.stdout}"
                elif expected and not matches(expected, done.stdout):
                    yield f"{command}\n  answered {done.stdout}\n  not      {expected}"
        if ran == 0:
            yield "has no command with curl; correct hack/lib/book_commands.py"


def run_shell(page, program):
    with Members(program) as members:
        address = members.start("serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--watch-listen", "127.0.0.1:0")
        wanted = [block for block in blocks(page.read_text()) if "curl " in block or "localhost:7400" in block]
        script = "".join(wanted).replace("localhost:7400", address).replace("=VERSION", "=1")
        if "curl " not in script:
            yield "has no command with curl; correct hack/lib/book_commands.py"
            return
        done = members.run(script)
        if done.returncode != 0:
            yield f"{script}\n  failed: {done.stderr}{done.stdout}"


def free_ports():
    """A port after which those that follow from it are free as well, and as many 100 above."""
    for base in range(20000, 60000, 250):
        with ExitStack() as held:
            try:
                for port in [*range(base, base + 5), *range(base + 100, base + 105)]:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return base
            except OSError:
                continue
    raise SystemExit("there are no free ports")


def run_several(page, program):
    block = next((block for block in blocks(page.read_text()) if "rs rebalance" in block), None)
    if block is None:
        yield "has no block with rs rebalance; correct hack/lib/book_commands.py"
        return
    base = free_ports()
    block = block.replace(":740", f":{base // 10}").replace(":750", f":{(base + 100) // 10}")
    with Members(program) as members:
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["rs", "serve"]:
                members.start(*(word for word in words[1:] if word != "&"))
            elif words[:1] == ["rs"]:
                done = members.run(shlex.join([program, *words[1:]]))
                if "balanced: a 512, b 512" not in done.stdout:
                    yield f"{line}\n  answered {done.stdout}{done.stderr}"


def main(root, program):
    wrong = 0
    for pages, run in ((TRANSCRIPTS, run_transcripts), (SHELL, run_shell), (SEVERAL, run_several)):
        for name in pages:
            for problem in run(root / name, program):
                wrong += 1
                print(f"{name}: {problem}")
    print(f"commands of {len(TRANSCRIPTS + SHELL + SEVERAL)} pages, {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).resolve())))
