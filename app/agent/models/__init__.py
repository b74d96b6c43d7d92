"""Models: the one client, what they cost, which one answers."""
