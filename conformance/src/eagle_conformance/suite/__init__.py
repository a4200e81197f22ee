# SPDX-License-Identifier: Apache-2.0
"""The tests themselves, one module per group; run with ``pytest --pyargs eagle_conformance``."""
