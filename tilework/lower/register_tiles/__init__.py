"""Loop nests around tiles of vector registers: programs of CPUs, and of the interpreter's kind.

GPUs take nothing of it; what all kinds share stands above (`tilework.lower`).
"""
