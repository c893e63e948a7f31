"""The rows of the benchmarks, one file for each kind of work, with these names:

TITLE, CASES      the title of the row, and the names of its variants
inputs(case)      the input arrays of a case, equal in every process
program(lib, *inputs), ARGNUMS   a scalar function of arrays, and the numbers of its differentiated arguments, from
                  which peers.py makes the value and gradient by each library
numpy(*inputs), c(*inputs), ...   a peer written by hand: returns the function to measure, which takes no arguments
WITHOUT           the peers that cannot run the program
TARGETS           the targets of the row, see targets.py
reference         the peer from which errors are measured; by default numpy
COPIES            True if programs copy the inputs, and so are built again for each draw of them
IS_COLD, LOADED   True if each call begins anew, so that there is no warm-up; False to skip measurements under load
FIGURES           name -> unit, for a row that counts: its programs run once, and return a dict of figures
"""
