# SPDX-License-Identifier: Apache-2.0
"""Which backends there are, and the loaded ones.

A backend is a distribution with an entry point in the group ``eagle.backends``: a module that holds one hook::

    from eagle.backends import BackendSpec, hookimpl, library_name

    @hookimpl
    def eagle_backend() -> BackendSpec:
        return BackendSpec(kind="acme", library=Path(__file__).parent / library_name("acme"), device_types=(12,))

Importing this package reads nothing; a kind is looked for when first needed, and loaded once per process.
"""

from eagle.backends.choosing import for_device_type, for_format, gpus, host, resolve
from eagle.backends.discovery import kinds
from eagle.backends.loading import has, info, load, spec
from eagle.backends.props import DeviceProps, device_props
from eagle.backends.spec import BackendSpec, hookimpl, library_name

__all__ = ["BackendSpec", "DeviceProps", "device_props", "for_device_type", "for_format", "gpus", "has", "hookimpl",
           "host", "info", "kinds", "library_name", "load", "resolve", "spec"]


def __dir__() -> list[str]:
    return sorted(__all__)
