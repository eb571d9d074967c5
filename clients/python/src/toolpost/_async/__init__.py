"""The asynchronous client. `_sync` is generated from it by scripts/generate_sync.py."""
