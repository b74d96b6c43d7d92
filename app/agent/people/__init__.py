"""What people say to the agent beside messages, and what they see while it works."""
