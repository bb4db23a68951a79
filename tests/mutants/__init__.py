# SPDX-License-Identifier: GPL-2.0
"""Breaks the importer on purpose, one line at a time, and asks the KUnit suites which case notices."""
