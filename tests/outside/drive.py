"""Commands of seqlab in one process that also has a task from outside; what they print goes to standard
output as JSON.

Standard input holds JSON: the commands, each a list of words.
"""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

import syllables  # noqa: F401 importing it is all that a task needs

from seqlab import cli


def run(words):
    sys.argv = ["seqlab", *words]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


print(json.dumps([run(words) for words in json.load(sys.stdin)]))
