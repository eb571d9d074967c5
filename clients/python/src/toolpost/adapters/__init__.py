"""Toolpost's tools as tools of agent frameworks. Each adapter is an extra: `pip install "toolpost[langchain]"`."""
