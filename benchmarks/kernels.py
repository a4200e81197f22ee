"""The kernels that are measured. hawk traces source text, so they live in a file."""

import hawk
from hawk import Index, Mutable, Param, Scalar, Table, Vector


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


@hawk.kernel
def total(x: Scalar, s: Mutable[Scalar]):
    """One cell from all samples."""
    s = hawk.sum(x)


@hawk.kernel
def largest(x: Scalar, s: Mutable[Scalar]):
    """The same by comparison: order decides no bits."""
    s = hawk.max(x)


@hawk.kernel
def binned(k: Index, x: Scalar, acc: Mutable["bin"]):
    """A scatter add with a companion to each bin."""
    hawk.scatter(acc)[k] += x


@hawk.kernel
def binned_plainly(k: Index, x: Scalar, acc: Mutable["bin"]):
    """A scatter add that rounds at each term."""
    hawk.scatter(acc, policy="plain")[k] += x


@hawk.kernel
def gathered(k: Index, t: Table[Scalar]) -> Scalar:
    """A table read at random places."""
    return t.at(k)


@hawk.kernel
def push(v: Vector[3], dt: Param, p: Mutable[Vector[3]]):
    """A step of state, on vectors."""
    p = p + v * dt
