"""The parts of an algorithm: acquisitions, staleness policies and timings; and the maximization of an acquisition."""
