# SPDX-License-Identifier: GPL-2.0
"""Reads what a test run left behind and decides what passed."""
