"""Has KEDA scale a ReadStateCluster on kind by what Prometheus says of its cache pods, with the ScaledObject of the book.

In: a kubeconfig whose cluster has KEDA, a Prometheus operator, the operator with its monitors, and the sample with three
cache pods. Out: what was decided when, and exit status 1 if a pod was not added and removed again.
"""

import argparse
import base64
import json
import pathlib
import re
import signal
import sys
import time

from monitoring_kind import NAMESPACE, SAMPLE, Forward, Prometheus, all_targets, kubectl
from monitoring_world import Load, until

PAGE = pathlib.Path(__file__).resolve().parents[2] / "readstates/book/src/how-to/scale.md"
SERVER = "http://prometheus-operated.monitoring.svc:9090"
USERS = 600
# KEDA asks every half minute, and an autoscaler looks every quarter of one.
DECIDES = 300
# Seconds without another state after which the load has all its users in memory.
STEADY = 20


def scaled_object(threshold):
    """The book's, at this Prometheus, for this many states in each pod, and without the wait before fewer pods."""
    text = PAGE.read_text().split("```yaml\n")
    found = [block.split("```")[0] for block in text if block.startswith("apiVersion: keda.sh/")]
    if len(found) != 1:
        raise SystemExit(f"{PAGE} has {len(found)} examples for KEDA, not one")
    text = found[0]
    changes = {
        r"serverAddress: \S+": f"serverAddress: {SERVER}",
        r'threshold: "\d+"': f'threshold: "{threshold}"',
        r"stabilizationWindowSeconds: \d+": "stabilizationWindowSeconds: 0",
    }
    for pattern, value in changes.items():
        text, count = re.subn(pattern, value, text)
        if count != 1:
            raise SystemExit(f"{PAGE}: {pattern} is {count} times in the example for KEDA, not once")
    return text


def query():
    return re.search(r"query: (.*)", scaled_object(1))[1]


def scaled_to(count):
    """Waits until the autoscaler wrote this into the cluster's spec, and as many members serve."""

    def decided():
        wanted = json.loads(kubectl("get", "readstatecluster", SAMPLE, "--namespace", NAMESPACE, "--output", "json"))
        return wanted["spec"]["replicas"] == count

    until(f"the decision for {count} cache pods", decided, DECIDES)
    print(f"    spec.replicas is {count}", flush=True)
    kubectl("wait", f"statefulset/{SAMPLE}", "--namespace", NAMESPACE, f"--for=jsonpath={{.status.readyReplicas}}={count}", "--timeout=240s")
    kubectl("wait", f"readstatecluster/{SAMPLE}", "--namespace", NAMESPACE, "--for=condition=Available", "--timeout=240s")
    print(f"    {count} cache pods are ready", flush=True)


def keeps(threshold):
    kubectl("apply", "--namespace", NAMESPACE, "--filename", "-", given=scaled_object(threshold))
    print(f"    each cache pod is to have {threshold} states", flush=True)


def scale(prometheus):
    seen = [0, time.monotonic()]

    def states():
        """How many, once they have not grown for so long: pods are counted out for this number."""
        result = prometheus.query(query())
        found = round(float(result[0]["value"][1])) if result else 0
        if found != seen[0]:
            seen[:] = [found, time.monotonic()]
        return found >= USERS / 2 and time.monotonic() - seen[1] >= STEADY and found

    count = until("states in memory, and no more of them", states, 300)
    print(f"==> {count} states are in the memory of three cache pods", flush=True)
    # A fifth too much for three: an autoscaler tolerates a tenth.
    keeps(max(1, count * 10 // 36))
    scaled_to(4)
    keeps(count * 100)
    scaled_to(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=pathlib.Path, required=True, help="where logs are left")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    prometheus = Prometheus()
    print("==> targets of Prometheus, by monitor", flush=True)
    all_targets(prometheus)
    secret = kubectl("get", "secret", f"{SAMPLE}-caller", "--namespace", NAMESPACE, "--output", "jsonpath={.data.token}")
    forward = Forward(f"{SAMPLE}-0", base64.b64decode(secret).decode(), arguments.keep / "port-forward.log")
    load = Load([forward], USERS, 0.02, 2)
    try:
        scale(prometheus)
    finally:
        load.stop()
        forward.end()


if __name__ == "__main__":
    sys.exit(main())
