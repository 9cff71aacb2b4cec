#!/usr/bin/env python3
"""Checks that every crate of the lock file is under a licence that deny.toml allows, and comes from crates.io."""
import json
import re
import subprocess
import sys
import tomllib

with open("deny.toml", "rb") as file:
    ALLOWED = set(tomllib.load(file)["licenses"]["allow"])


def is_allowed(expression: str) -> bool:
    """An SPDX expression holds if some choice of its alternatives is allowed whole."""
    text = re.sub(r"\s*/\s*", " OR ", expression)
    tokens = re.findall(r"\(|\)|AND|OR|[^\s()]+(?: WITH [^\s()]+)?", text)
    python = [
        {"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(token, str(token in ALLOWED)) for token in tokens
    ]
    return bool(eval(" ".join(python)))  # Made of the words above only.


def main() -> int:
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
    faults = []
    for package in packages:
        name = f'{package["name"]} {package["version"]}'
        if not package["license"] or not is_allowed(package["license"]):
            faults.append(f'{name}: licence {package["license"]} is not in deny.toml')
        source = package["source"]
        if source is not None and "crates.io-index" not in source:
            faults.append(f"{name}: comes from {source}")
    print("\n".join(faults) or f"{len(packages)} crates, every licence allowed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
