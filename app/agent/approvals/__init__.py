"""Requests that wait for a person: put, decided, closed."""
