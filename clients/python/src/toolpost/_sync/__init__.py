"""The sync client. Generated from `_async` by scripts/generate_sync.py."""
