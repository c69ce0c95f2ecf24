"""python -m perfmagic."""

import sys

from perfmagic.cli import main

sys.exit(main())
