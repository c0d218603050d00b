"""Prints what Grafana's schema does not know in dashboards: grafana_schema.py FILE...

The classes of grafana-foundation-sdk are generated from Grafana's schema. They ignore what they do not know, so a dashboard
that is decoded and encoded again must contain all that it contained before.
"""

import json
import sys

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard


def lost(before, after, path):
    """Yields the paths of values that are in before, but not in after."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from lost(value, after[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (a, b) in enumerate(zip(before, after)):
            yield from lost(a, b, f"{path}[{i}]")
    elif before != after:
        yield path


plugins.register_default_plugins()
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as f:
        written = json.load(f)
    known = json.loads(json.dumps(dashboard.Dashboard.from_json(written), cls=encoder.JSONEncoder))
    for path in lost(written, known, name):
        print(path)
