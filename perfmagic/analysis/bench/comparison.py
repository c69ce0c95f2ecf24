"""One benchmark against another, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from perfmagic.units import duration_s, significant


@dataclass(frozen=True)
class Comparison:
    """One benchmark against another.

    baseline, name: what the two are called.  quantity: what is compared.  baseline_s, name_s: its medians, in seconds.
    ratio: how many times as fast it is as the baseline, above 1 is faster, 0 where one takes no time; of interleaved
    samples the median of the pairs' ratios, else the ratio of the medians.  ratio_low, ratio_high: 95 % confidence
    interval of the ratio, None where the samples are too few; of separate runs it includes what else was seen
    (perfmagic.analysis.bench.separate_runs).  band_frac: a change within it is "same".  interleaved: whether the
    samples were.  verdict: faster, slower, same or unclear.  why: what the verdict rests on; where it is unclear, the
    reason and what would help.  note: what makes the ratio differ from that of the medians, "" where nothing does.
    """

    baseline: str
    name: str
    quantity: str
    baseline_s: float
    name_s: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    band_frac: float
    interleaved: bool
    verdict: str
    why: str
    note: str = ""

    @property
    def sentence(self) -> str:
        """Verdict, times, ratio and reason in one line."""
        return "; ".join(part for part in (f"{self.headline}, {self.ratio_words}", self.why, self.note) if part)

    @property
    def headline(self) -> str:
        """Verdict and times."""
        return f"{self.words}: {self.quantity} {duration_s(self.name_s)} against {duration_s(self.baseline_s)}"

    @property
    def explanation(self) -> str:
        """What a reader must know beside the verdict: why it is unclear, and the note; "" where nothing."""
        return "; ".join(part for part in (self.why if self.verdict == "unclear" else "", self.note) if part)

    @property
    def words(self) -> str:
        """The verdict with both names: "B is 2.5 times as fast as A"."""
        if self.verdict == "faster":
            return f"{self.name} is {significant(self.ratio, 3)} times as fast as {self.baseline}"
        if self.verdict == "slower":
            return f"{self.name} is slower than {self.baseline}"
        if self.verdict == "same":
            return f"{self.name} is as fast as {self.baseline}"
        return f"unclear whether {self.name} is faster than {self.baseline}"

    @property
    def ratio_words(self) -> str:
        """The ratio with its interval, "× 2.51 [2.40, 2.58]"."""
        if self.ratio_low is None or self.ratio_high is None:
            return f"× {self.ratio:.3g}"
        low, high = self.ratio_low, self.ratio_high
        if self.ratio < 0.1 or high >= 100:  # decimals would leave nothing of the one, and fill the line with the other
            return f"× {significant(self.ratio, 2)} [{significant(low, 2)}, {significant(high, 2)}]"
        digits = 3 if high - low < 0.02 else 2
        return f"× {self.ratio:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"

    def to_dict(self) -> dict[str, Any]:
        """All fields and the sentence, ready for JSON."""
        return {**asdict(self), "sentence": self.sentence}
