"""Loop programs as LLVM IR, written directly as text.

Each part owns its own state:

    Function      function.py       blocks, loops, and values hoisted to the loop they depend on
    Declarations  declarations.py   what stands in the module beside the function
    Bindings      bindings.py       what loop variables and buffers stand for at this point
    Integers      integers.py       index arithmetic and predicates; linear forms of expressions
    Addresses     addresses.py      pointers to elements; linear forms of accesses
    Arithmetic    arithmetic.py     operators on SSA values; broadcasts  (convert.py: other types)
    LoadStore     load_store.py     loads of this block, and stores, under guards
    MaskedMoves   masked.py         moves of vectors of which some lanes count
    Registers     registers.py      what register buffers hold
    OneByOne      one_by_one.py     the order of vectors that end in a math function
    Dots          dots.py           operands of instructions that sum products; repeated groups
    Expressions   expressions.py    recursion over value expressions (index_data.py, products.py,
                                    math_calls.py: parts of it)
    RegionCode    region.py         recursion over statements; puts all of the above together

`program.py` makes the modules of a kernel of regions, `assembler.py` object code of modules. Math
functions are written over `vector_body.py` in `vector_math.py` and `exponential.py`.
"""
