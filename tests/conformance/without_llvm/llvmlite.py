"""First on the path, it is what a machine without LLVM sees."""

raise ModuleNotFoundError("No module named 'llvmlite': this environment has none")
