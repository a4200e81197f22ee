"""Stepping, measured: the models, their batches, and a stepper for each tool. Imports no tool itself."""
