"""A network as a shared library for programs in any language: `docs/library.md`.

objects   the symbols of object files, renamed and hidden
weights   the constants of all levels as one block, equal ones once
levels    in which order a library tries its levels
tables    what differs between libraries, as C
extents   what a run decides, as tables that C evaluates
header    what a C program includes
linker    the C compiler, the system's or a wheel's
build     all of it: the room ``library`` of CPUs
sources/  the C that is the same in all libraries
"""
