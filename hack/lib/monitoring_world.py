"""Processes for hack/monitoring: members, a database, an operator, Prometheus, and some load on the members.

Everything listens on loopback, keeps its files in one folder and ends with it. Nothing here knows which alerts there are.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

PATIENCE = 120


def until(what, look, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise SystemExit(f"{what} took longer than {patience} s")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


class Process:
    """A program that runs until it is stopped; in a group of its own, so that a signal reaches what it started."""

    def __init__(self, name, command, folder, env=None):
        self.name, self.command, self.env = name, [str(word) for word in command], env
        self.headers = {}
        self.log = folder / f"{name}.log"
        self.start()

    def start(self):
        environment = {**os.environ, **self.env} if self.env else None
        with self.log.open("a") as out:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    def stop(self, number=signal.SIGTERM, patience=PATIENCE):
        self.send(number)
        try:
            self.child.wait(patience)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.child.wait()

    def said(self, pattern):
        if self.child.poll() is not None:
            raise SystemExit(f"{self.name} ended: {self.log.read_text()[-2000:]}")
        return re.search(pattern, self.log.read_text())


class World:
    """Everything that runs, by the folder that it is in."""

    def __init__(self, programs, folder):
        self.programs, self.folder = pathlib.Path(programs), folder
        self.processes, self.targets, self.loads = [], [], []

    def process(self, name, command, env=None):
        process = Process(name, command, self.folder, env)
        self.processes.append(process)
        return process

    def member(self, cluster, name, *flags, ring=True, before=()):
        """A member on ports of its own. Prometheus is told of it, with the labels that a PodMonitor gives."""
        port = free_port()
        command = [*before, self.programs / "readstates", "serve", "--listen", f"127.0.0.1:{port}"]
        command += ["--admin-listen", f"127.0.0.1:{free_port()}", "--watch-listen", f"127.0.0.1:{free_port()}"]
        if ring:
            command += ["--members-listen", f"127.0.0.1:{free_port()}", "--ring", f"file:{self.folder / cluster}-ring", "--member", name]
        process = self.process(name, [*command, *flags])
        process.port = port
        process.watch = command[command.index("--watch-listen") + 1]
        labels = {"namespace": "talk", "readstates_cluster": cluster, "pod": name}
        self.targets.append({"targets": [process.watch], "labels": labels})
        until(name, lambda: process.said('"message":"serving"'))
        return process

    def rebalance(self, cluster):
        command = [self.programs / "readstates", "rebalance", "--ring", f"file:{self.folder / cluster}-ring"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def load(self, members, users, pause, parallel=2, crowd=0):
        load = Load(members, users, pause, parallel, crowd)
        self.loads.append(load)
        return load

    def prometheus(self, program, rules, scrape, operator):
        """It reads targets again by itself: what is started later need only be written down."""
        port = free_port()
        found = self.folder / "targets.json"
        config = {
            "global": {"scrape_interval": scrape, "evaluation_interval": scrape},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "members", "file_sd_configs": [{"files": [str(found)], "refresh_interval": "2s"}]},
                {"job_name": "operator", "honor_labels": True, "static_configs": [{"targets": [operator]}]},
            ],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        self.write_targets()
        command = [program, f"--config.file={self.folder / 'prometheus.yml'}", f"--storage.tsdb.path={self.folder / 'tsdb'}"]
        self.process("prometheus", [*command, f"--web.listen-address=127.0.0.1:{port}"])
        self.url = f"http://127.0.0.1:{port}"
        until("Prometheus", lambda: listens(port))

    def write_targets(self):
        new = self.folder / "targets.new"
        new.write_text(json.dumps(self.targets))
        new.rename(self.folder / "targets.json")

    def query(self, expression, path="query", **more):
        asked = urllib.parse.urlencode({"query": expression, **more})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{asked}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def end(self):
        for load in self.loads:
            load.stop()
        for process in reversed(self.processes):
            process.send(signal.SIGCONT)
            process.send(signal.SIGKILL)
        for process in self.processes:
            process.child.wait()


class Load:
    """Acknowledges and reads, slowly: what it does is counted by the members, not by itself. With `crowd`, each message
    mentions so many users instead. A member is a `port` of loopback and the `headers` of each request."""

    def __init__(self, members, users, pause, parallel, crowd=0):
        self.members, self.users, self.pause = members, users, pause
        self.crowd = [str(user) for user in range(1, crowd + 1)]
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(seed,), daemon=True) for seed in range(parallel)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        draw, message, connections = random.Random(seed), 1, {}
        while not self.stopped.wait(self.pause):
            member, user = draw.choice(self.members), draw.randrange(1, self.users + 1)
            message += 1
            try:
                connection = connections.setdefault(member.port, http.client.HTTPConnection("127.0.0.1", member.port, timeout=5))
                path = f"/v1/users/{user}/read-states"
                if self.crowd:
                    body = json.dumps({"channel_id": "7", "message_id": str(message), "user_ids": self.crowd})
                    connection.request("POST", "/v1/mentions", body, {"content-type": "application/json", **member.headers})
                elif draw.random() < 0.3:
                    connection.request("GET", path, headers=member.headers)
                else:
                    body = json.dumps({"message_id": str(message)})
                    connection.request("POST", f"{path}/7/ack", body, {"content-type": "application/json", **member.headers})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                gone = connections.pop(member.port, None)
                if gone:
                    gone.close()
                self.stopped.wait(0.5)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(10)


def cassandra(world, jars, options):
    """One node out of `jars`, which has what hack/offline/cassandra's pom.xml names, and the agent beside it. Its port of CQL."""
    home, port, jmx = world.folder / "cassandra", free_port(), free_port()
    (home / "conf").mkdir(parents=True)
    settings = {
        "cluster_name": "monitoring",
        "num_tokens": 1,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [{"seeds": "127.0.0.1"}]}],
        "listen_address": "127.0.0.1",
        "rpc_address": "127.0.0.1",
        "native_transport_port": port,
        "storage_port": free_port(),
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "auto_snapshot": False,
    }
    (home / "conf/cassandra.yaml").write_text(json.dumps(settings))
    command = ["java", f"@{options / 'java17.options'}", "-Xss256k", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
    command += [f"-Dcassandra.storagedir={home}", f"-Dcassandra.jmx.local.port={jmx}", "-Dcassandra-foreground=yes"]
    command += [f"-Dlogback.configurationFile=file://{options / 'logback.xml'}", "-Djdk.attach.allowAttachSelf=true"]
    command += [f"-javaagent:{next(jars.glob('jamm-*.jar'))}", "-cp", f"{home / 'conf'}:{jars}/*"]
    process = world.process("cassandra", [*command, "org.apache.cassandra.service.CassandraDaemon"])

    def answers():
        process.said("")
        return listens(port)

    until("Cassandra", answers, 300)
    tool = home / "nodetool"
    java = f"java @{options / 'java17.options'} -Xmx64m -XX:TieredStopAtLevel=1 -Dlogback.configurationFile=file://{options / 'logback.xml'}"
    tool.write_text(f'#!/bin/sh\nexec {java} -cp "{home / "conf"}:{jars}/*" org.apache.cassandra.tools.NodeTool -p {jmx} "$@"\n')
    tool.chmod(0o755)
    agent(world, home, tool, jmx, port)
    return process, port


def agent(world, home, tool, jmx, cql):
    """It has no certificate, and so answers no operator: only who asks how the node is."""
    watch = f"127.0.0.1:{free_port()}"
    command = [world.programs / "operator", "agent", "serve", "--engine", "cassandra", "--data", home, "--identity", home / "none"]
    command += ["--pod-name", "database-db-0", "--pod-uid", "1", "--address", "127.0.0.1", "--listen", f"127.0.0.1:{free_port()}"]
    command += ["--watch-listen", watch, "--nodetool", tool, "--admin", f"127.0.0.1:{jmx}", "--cql-port", cql]
    world.process("agent", command)
    labels = {"namespace": "talk", "readstates_cluster": "database", "pod": "database-db-0"}
    world.targets.append({"targets": [watch], "labels": labels})
