"""The embedded engine: a small Inngest-compatible server that stores every run in one SQLite file."""
