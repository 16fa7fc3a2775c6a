"""Scheduled events, pure: instants, rules, records, and what is owed when they are missed."""
