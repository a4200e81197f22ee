"""The kernels that are measured. hawk traces source text, so they live in a file."""

import hawk
from hawk import Param, Scalar


@hawk.kernel
def axpb(x: Scalar, a: Param, b: Param) -> Scalar:
    """One multiplication and one addition: memory is the limit."""
    return a * x + b


@hawk.kernel
def horner(x: Scalar, a: Param, b: Param) -> Scalar:
    """A dependent chain of arithmetic: the core is the limit."""
    p = a * x + b
    p = p * x + a
    p = p * x + b
    p = p * x + a
    p = p * x + b
    p = p * x + a
    p = p * x + b
    p = p * x + a
    return p * x + b
