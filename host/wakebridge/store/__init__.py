"""Durable state: scheduled events in SQLite, routines in one JSON document."""
