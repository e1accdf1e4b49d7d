"""A machine that interprets loop programs: slow, exact, and the same everywhere.

It stands for any machine in the conformance suite, needs neither LLVM nor a GPU, and says why a
program is wrong where a real machine would only give wrong numbers. Its time is counted, not
measured: see `tilework.kinds.reference.clock`.
"""
