"""wakebridge wakes a sleeping host at the right moment, then does what was planned for it."""
