"""No tests."""
