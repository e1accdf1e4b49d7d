"""How `tilework/kinds/cuda/registers.json` was made: run once for a compiler.

python -m benchmarks.registers.train [--count N] [--out FILE]
"""
