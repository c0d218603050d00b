"""python -m llmtap [OPTION]... SCRIPT|-m MODULE|-c COMMAND [ARGUMENT]...: runs Python with the hook, with these arguments."""

import os
import sys


def main() -> None:
    args = sys.argv[1:]
    if args[:1] == ["--"]:
        del args[0]
    if not args:
        sys.exit("usage: python -m llmtap SCRIPT|-m MODULE [ARGUMENT]...")
    site = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_site")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH", ""))))
    os.execv(sys.executable, [sys.executable, *args])


main()
