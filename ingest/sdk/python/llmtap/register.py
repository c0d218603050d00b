"""Importing this module records the calls of the program, with the settings of the environment: $LLMTAP_CAPTURE besides those of
instrument(). It does nothing after instrument(), and gives way to one that follows."""

import os

from ._api import install
from ._config import Config

install(Config(capture=os.environ.get("LLMTAP_CAPTURE", "")), automatic=True)
