"""Judges one pod from its terms and its signals: a pure function; knows no Prometheus and no API."""

from __future__ import annotations

from reaper.evidence import Evidence, SignalEvidence, Verdict

__all__ = ["Evidence", "SignalEvidence", "Verdict"]
