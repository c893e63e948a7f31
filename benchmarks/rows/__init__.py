"""One file per kind of work.

TITLE, CASES      what it is called, and its variants
inputs(case)      arrays, the same in every process
program(lib, *inputs), ARGNUMS   a scalar function of arrays, and what is differentiated: peers.py makes each
                  library's value and gradient of it
numpy(*inputs), c(*inputs), ...   others: a function without arguments, made by hand; NumPy arrays in and out
WITHOUT           peers that cannot do it
TARGETS           what is asked, see targets.py
reference         what errors are measured against; by default numpy's result
COPIES            programs hold copies of the arrays: for another draw of them they are built anew
IS_COLD, LOADED   each call begins anew: nothing to warm; False: not measured under load
FIGURES           of a row that counts: name -> unit; its programs run once, and return such a dict
"""
