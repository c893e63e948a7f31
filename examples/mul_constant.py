"""A function of a tensor and a number: the number is an argument of the compiled code, not part of it.

Shown: a bare decorator that reads the types from the annotations, a rule attached to one method,
and a thousand different constants with one compile.
"""

import autodiff as ad


@ad.function
def mul_constant(tensor, constant): ...


@mul_constant.forward  # a bare decorator reads the types from the annotations
def scale(ctx, tensor: ad.Tensor, constant: ad.Number):
    ctx.save_for_backward(constant=constant)
    return tensor * constant


@scale.backward  # attached to one forward method: the same types
def _(ctx, grad_output):
    return {"tensor": grad_output * ctx.saved_variables.constant}


def main():
    x = ad.tensor(1.0, requires_grad=True)
    o = mul_constant(x, 2)
    o.backward()
    print("gradient:", x.grad)
    assert x.grad.item() == 2.0

    for _ in range(3):  # compiled when it comes for the third time
        x.grad = None
        mul_constant(x, 0.0).backward()
    before = ad.cache_info()
    for i in range(1000):
        constant = 0.25 * i
        x.grad = None
        mul_constant(x, constant).backward()
        assert x.grad.item() == constant
    compiles = ad.cache_info().compiles - before.compiles
    print("1,000 constants, further compiles:", compiles)
    assert compiles == 0


if __name__ == "__main__":
    main()
