"""What an algorithm is composed of: acquisition, staleness policy, timing; and how an acquisition is maximized."""
