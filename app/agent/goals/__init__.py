"""Goals: made, worked on step by step, ended."""
