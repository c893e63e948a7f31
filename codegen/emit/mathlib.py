"""Elementary functions, for now libm's."""

def definitions(needed, *, has_fma):
    text = ""
    for name, suffix in sorted(needed):
        t = "float" if suffix == "f32" else "double"
        n = 2 if name in ("pow", "atan2") else 1
        params = ", ".join([f"{t} %x", f"{t} %y"][:n])
        sym = name + ("f" if suffix == "f32" else "")
        text += (
            f"define internal {t} @{name}.{suffix}({params}) alwaysinline nounwind {{\n"
            f"  %r = call {t} @{sym}({params})\n  ret {t} %r\n}}\n"
            f"declare {t} @{sym}({', '.join([t] * n)})\n"
        )
    return text
