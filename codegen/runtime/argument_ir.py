"""How the launcher checks one argument, as LLVM IR text: `ptr data_of(plan, argument, spec, cell)`.

An argument fits its spec when it is

    an ndarray (that very class) of the spec's dtype and extents, C-contiguous and aligned
    for a 0-d spec, a NumPy scalar of the spec's dtype, or a Python number whose kind it can hold

An array's data and a NumPy scalar's value are used where they are; a Python number is written to
`cell`, sixteen bytes of the frame.  Everything else is null: a miss.
"""

from __future__ import annotations

from .template import Template

__all__ = ["ARGUMENTS", "NUMBER_KINDS"]

#: How a Python number is written for a 0-d input of this dtype; 0 is no number at all.
NUMBER_KINDS = {"f64": 1, "f32": 2, "i64": 3, "i32": 4, "bool": 5, "c128": 6, "c64": 7}

#: Names in capitals are offsets in objects, the others words of the plan (`launcher_ir`).
ARGUMENTS = Template("""
declare double @PyFloat_AsDouble(ptr)
declare double @PyComplex_RealAsDouble(ptr)
declare double @PyComplex_ImagAsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare i64 @llvm.vector.reduce.or.v2i64(<2 x i64>)

; The data of an argument that fits its spec, else null.  A number is written to `cell`.
define internal ptr @data_of(ptr %plan, ptr %argument, ptr %spec, ptr %cell) alwaysinline {
entry:
  %type.at = getelementptr i8, ptr %argument, i64 $TYPE
  %type = load ptr, ptr %type.at
  %array.type = call ptr @address(ptr %plan, i64 $array_type)
  %is.array = icmp eq ptr %type, %array.type
  br i1 %is.array, label %array, label %number

array:
  %descr.at = getelementptr i8, ptr %argument, i64 $DESCR
  %descr = load ptr, ptr %descr.at
  %spec.descr = load ptr, ptr %spec
  %nd.at = getelementptr i8, ptr %argument, i64 $ND
  %nd32 = load i32, ptr %nd.at
  %nd = zext i32 %nd32 to i64
  %spec.nd.at = getelementptr %Spec, ptr %spec, i64 0, i32 1
  %spec.nd = load i64, ptr %spec.nd.at
  %flags.at = getelementptr i8, ptr %argument, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %order = and i32 %flags, 257                      ; C-contiguous and aligned
  %same.nd = icmp eq i64 %nd, %spec.nd
  %is.packed = icmp eq i32 %order, 257
  %fits = and i1 %same.nd, %is.packed
  br i1 %fits, label %dtype, label %miss
dtype:
  %same.descr = icmp eq ptr %descr, %spec.descr
  br i1 %same.descr, label %extents, label %other.descr
other.descr:
  ; An unpickled array has a descr object of its own: the same scalar type, kind, byte order and number.
  %dtype.at = getelementptr i8, ptr %descr, i64 $DTYPE
  %dtype.words = load <2 x i64>, ptr %dtype.at, align 8
  %spec.dtype.at = getelementptr i8, ptr %spec.descr, i64 $DTYPE
  %spec.dtype.words = load <2 x i64>, ptr %spec.dtype.at, align 8
  %differences = xor <2 x i64> %dtype.words, %spec.dtype.words
  %difference = call i64 @llvm.vector.reduce.or.v2i64(<2 x i64> %differences)
  %same.dtype = icmp eq i64 %difference, 0
  br i1 %same.dtype, label %extents, label %miss
extents:
  %dims.at = getelementptr i8, ptr %argument, i64 $DIMS
  %dims = load ptr, ptr %dims.at
  %spec.dims.at = getelementptr %Spec, ptr %spec, i64 0, i32 2
  %spec.dims = load ptr, ptr %spec.dims.at
  br label %extent
extent:
  %d = phi i64 [ 0, %extents ], [ %d.next, %same ]
  %at.end = icmp eq i64 %d, %nd
  br i1 %at.end, label %good, label %compare
compare:
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %spec.dim.at = getelementptr i64, ptr %spec.dims, i64 %d
  %spec.dim = load i64, ptr %spec.dim.at
  %is.same = icmp eq i64 %dim, %spec.dim
  br i1 %is.same, label %same, label %miss
same:
  %d.next = add i64 %d, 1
  br label %extent
good:
  %data.at = getelementptr i8, ptr %argument, i64 $DATA
  %data = load ptr, ptr %data.at
  ret ptr %data

number:
  %scalar.at = getelementptr %Spec, ptr %spec, i64 0, i32 4
  %scalar = load ptr, ptr %scalar.at
  %is.scalar = icmp eq ptr %type, %scalar
  br i1 %is.scalar, label %numpy.scalar, label %python.number
numpy.scalar:
  %payload = getelementptr i8, ptr %argument, i64 $SCALAR
  ret ptr %payload
python.number:
  %kind.at = getelementptr %Spec, ptr %spec, i64 0, i32 3
  %kind = load i64, ptr %kind.at
  %float.type = call ptr @address(ptr %plan, i64 $float_type)
  %is.float = icmp eq ptr %type, %float.type
  br i1 %is.float, label %float, label %not.float
float:
  switch i64 %kind, label %miss [ i64 1, label %float.f64  i64 2, label %float.f32 ]
float.f64:
  %f64 = call double @PyFloat_AsDouble(ptr %argument)
  store double %f64, ptr %cell
  ret ptr %cell
float.f32:
  %wide = call double @PyFloat_AsDouble(ptr %argument)
  %f32 = fptrunc double %wide to float
  store float %f32, ptr %cell
  ret ptr %cell
not.float:
  %int.type = call ptr @address(ptr %plan, i64 $int_type)
  %is.int = icmp eq ptr %type, %int.type
  br i1 %is.int, label %int, label %not.int
int:
  %has.int = icmp eq i64 %kind, 0
  br i1 %has.int, label %miss, label %convert.int
convert.int:
  %i64 = call i64 @PyLong_AsLongLongAndOverflow(ptr %argument, ptr %cell)
  %overflow = load i32, ptr %cell
  %fits.i64 = icmp eq i32 %overflow, 0
  br i1 %fits.i64, label %store.int, label %miss
store.int:
  switch i64 %kind, label %miss [
    i64 1, label %int.f64  i64 2, label %int.f32  i64 3, label %int.i64  i64 4, label %int.i32
  ]
int.f64:
  %int.as.f64 = sitofp i64 %i64 to double
  store double %int.as.f64, ptr %cell
  ret ptr %cell
int.f32:
  ; by way of f64, as NumPy converts
  %int.as.wide = sitofp i64 %i64 to double
  %int.as.f32 = fptrunc double %int.as.wide to float
  store float %int.as.f32, ptr %cell
  ret ptr %cell
int.i64:
  store i64 %i64, ptr %cell
  ret ptr %cell
int.i32:
  %i32 = trunc i64 %i64 to i32
  %back = sext i32 %i32 to i64
  %fits.i32 = icmp eq i64 %back, %i64
  store i32 %i32, ptr %cell
  br i1 %fits.i32, label %stored.i32, label %miss
stored.i32:
  ret ptr %cell
not.int:
  %bool.type = call ptr @address(ptr %plan, i64 $bool_type)
  %is.bool.type = icmp eq ptr %type, %bool.type
  %is.bool.kind = icmp eq i64 %kind, 5
  %is.bool = and i1 %is.bool.type, %is.bool.kind
  br i1 %is.bool, label %bool, label %not.bool
not.bool:
  %complex.type = call ptr @address(ptr %plan, i64 $complex_type)
  %is.complex = icmp eq ptr %type, %complex.type
  br i1 %is.complex, label %complex, label %miss
complex:
  %re = call double @PyComplex_RealAsDouble(ptr %argument)
  %im = call double @PyComplex_ImagAsDouble(ptr %argument)
  switch i64 %kind, label %miss [ i64 6, label %complex.c128  i64 7, label %complex.c64 ]
complex.c128:
  %im.cell = getelementptr double, ptr %cell, i64 1
  store double %re, ptr %cell
  store double %im, ptr %im.cell
  ret ptr %cell
complex.c64:
  %im.narrow.cell = getelementptr float, ptr %cell, i64 1
  %re.narrow = fptrunc double %re to float
  %im.narrow = fptrunc double %im to float
  store float %re.narrow, ptr %cell
  store float %im.narrow, ptr %im.narrow.cell
  ret ptr %cell
bool:
  %truth = call i32 @PyObject_IsTrue(ptr %argument)
  %byte = trunc i32 %truth to i8
  store i8 %byte, ptr %cell
  ret ptr %cell
miss:
  ret ptr null
}
""")
