"""python -m perfmagic: the trace half of perfmagic as a command line; needs no torch and no IPython."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from perfmagic.errors import OptionError, PerfmagicError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 1 with one message on stderr."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PerfmagicError as error:
        print(f"perfmagic: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"perfmagic: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perfmagic", description="Saved traces: what was queued, what was executed.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="totals and findings of saved traces")
    report.add_argument("files", nargs="+", metavar="FILE")
    report.add_argument("--json", action="store_true", help="everything as JSON")
    _comm_names(report)
    report.set_defaults(run=_report)
    view = commands.add_parser("view", help="draw saved traces into one self-contained page, or one into a picture")
    view.add_argument("files", nargs="+", metavar="FILE")
    where = view.add_mutually_exclusive_group(required=True)
    where.add_argument("--html", metavar="OUT", help="the page to write")
    where.add_argument("--svg", metavar="OUT", help="the picture of one trace to write")
    _comm_names(view)
    view.set_defaults(run=_view)
    sanitize = commands.add_parser("nbval-sanitize", help="print patterns for nbval --nbval-sanitize-with")
    sanitize.set_defaults(run=_sanitize)
    doctor = commands.add_parser("doctor", help="what works in this environment")
    doctor.set_defaults(run=_doctor)
    return parser


def _comm_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--comm-names", metavar="REGEX", help="kernels that count as communication, instead of the default rule"
    )


def _report(options: argparse.Namespace) -> int:
    from perfmagic.api import open_trace
    from perfmagic.view.text import timeline_text

    results = [open_trace(path, comm_names=options.comm_names) for path in options.files]
    if options.json:
        reports = [r.to_dict() for r in results]
        print(json.dumps(reports[0] if len(reports) == 1 else reports, ensure_ascii=False, indent=1))
    else:
        print("\n\n".join(timeline_text(r.doc) for r in results))
    return 0


def _view(options: argparse.Namespace) -> int:
    from perfmagic.api import open_trace
    from perfmagic.view.live import live_page, live_section
    from perfmagic.view.svg import timeline_svg

    results = [open_trace(path, comm_names=options.comm_names) for path in options.files]
    if options.svg and len(results) > 1:
        raise OptionError(f"--svg draws one trace, {len(results)} were given", hint="use --html for several")
    target = Path(options.svg or options.html)
    sections = [live_section(r.doc, r.trace) for r in results] if options.html else []
    text = live_page(", ".join(r.title for r in results), sections) if sections else timeline_svg(results[0].doc)
    target.write_text(text, encoding="utf-8")
    print(target)
    return 0


def _sanitize(_options: argparse.Namespace) -> int:
    from perfmagic.view.sanitize import sanitize_file

    print(sanitize_file(), end="")
    return 0


def _doctor(_options: argparse.Namespace) -> int:
    from perfmagic.capture.doctor import environment

    print("\n".join(f"{key:12} {value}" for key, value in environment().items()))
    return 0
