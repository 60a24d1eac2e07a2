"""Numbers are written the same by the scripts as by Python."""

import json
import subprocess
from pathlib import Path

import numpy as np

from kvlab.formats import number

NUMBERS = Path(__file__).parents[2] / "site" / "js" / "numbers.js"
WRITE = """
import fs from "node:fs";
const { number } = await import(process.argv[1]);
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0)).map((value) => number(Number(value)))));
"""


def written_by_the_scripts(node: str, values: list[float]) -> list[str]:
    command = [node, "--input-type=module", "-e", WRITE, NUMBERS.as_uri()]
    names = {np.inf: "Infinity", -np.inf: "-Infinity"}
    given = json.dumps([names.get(value, repr(value)) for value in values])
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    texts: list[str] = json.loads(run.stdout)
    return texts


def test_floats(node: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.uniform(-1, 1, 2000) * 10.0 ** rng.integers(-22, 14, 2000)).tolist()
    values += [12345.6, 999.6, 9.9996, 0.9999, 0.00099996, 0.00099, 0.699, np.inf, -np.inf, np.nan]
    values += [12.25, 1.125, 136.5, 264.5, -0.0]  # ties, and a zero with a sign
    texts = written_by_the_scripts(node, values)
    assert texts == [number(value) for value in values]
    assert len(set(texts)) > 1000


def test_integers(node: str) -> None:
    values = [0, 1, 54, 1_800, 145_280, 10**12]
    assert written_by_the_scripts(node, [*values]) == [number(value) for value in values]
