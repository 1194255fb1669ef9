#!/usr/bin/env python3
"""Computes what the update service answers for OpenShift's real graph data, apart from the product.

    tests/flow/update_service/expected.py DATA > tests/flow/update_service/expected.txt

DATA is the folder of upstream's data (docs/development/upstream-data.md). A line is a channel and an architecture, how many releases,
updates and conditional updates its answer has, and the SHA-256 of its sorted lines:

    n VERSION CHANNELS
    e FROM TO
    c FROM TO [[name, url, message, [[type, query], ...]], ...]

Blanks at the end of a query do not count: YAML libraries differ about the last line of a file without a newline.
"""

import collections
import hashlib
import json
import pathlib
import re
import sys

import yaml


def main(data):
    listed = json.loads((data / "graph-releases/releases-4.12-4.19.json").read_text())
    known = {release["version"] for release in listed["releases"]}
    parents = collections.defaultdict(set)
    for release in listed["releases"]:
        parents[release["version"]] |= {p for p in release["previous"] if p in known}
        for after in release.get("next", []):
            parents[after].add(release["version"])

    channels = collections.defaultdict(set)
    for path in sorted((data / "graph-data/channels").glob("*.yaml")):
        text = yaml.safe_load(path.read_text())
        channels[text["name"]] |= set(map(str, text["versions"]))
    blocks = []
    for path in sorted((data / "graph-data/blocked-edges").glob("*.yaml"), key=lambda path: path.name):
        blocks.append(yaml.safe_load(path.read_text()))

    for channel in sorted(channels):
        for arch in sorted(listed["arches"]):
            members = [v for v in known if v in channels[channel] or f"{v}+{arch}" in channels[channel]]
            print(channel, arch, *answer(members, parents, blocks, channels, arch))


def answer(members, parents, blocks, channels, arch):
    lines = []
    counts = collections.Counter()
    for version in members:
        names = [name for name, held in channels.items() if version in held or f"{version}+{arch}" in held]
        names.sort(key=lambda name: (name.partition("-")[2], name))
        lines.append(f"n {version} {','.join(names)}")
        for parent in parents[version] & set(members):
            risks = []
            silent = False
            for block in blocks:
                to = str(block["to"])
                if to not in (version, f"{version}+{arch}") or not re.search(block["from"], f"{parent}+{arch}"):
                    continue
                if set(block) == {"to", "from"}:
                    silent = True
                elif block["name"] not in [risk[0] for risk in risks]:
                    rules = [[rule["type"], rule.get("promql", {}).get("promql", "").rstrip()] for rule in block["matchingRules"]]
                    risks.append([block["name"], block["url"], block["message"], rules])
            if silent:
                continue
            kind = "c" if risks else "e"
            counts[kind] += 1
            tail = " " + json.dumps(risks, ensure_ascii=False, separators=(",", ":")) if risks else ""
            lines.append(f"{kind} {parent} {version}{tail}")
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return len(members), counts["e"], counts["c"], digest


main(pathlib.Path(sys.argv[1]))
