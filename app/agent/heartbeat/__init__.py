"""What the heartbeat does and what is kept for it."""
