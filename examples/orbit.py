"""An orbit fitted by gradients: Ceres is lost, and found again.

In January 1801 G. Piazzi saw a new planet for 41 days, then it went behind the Sun.  A year later C. F. Gauss told the
astronomers of Europe where to look.  Seen from the Earth only directions are known, not distances.

Here the sky is simulated, in a plane: the planet is pulled by the Sun and Jupiter, and an `ad.scan` of small steps
integrates its path.  Its place and velocity on the first day are found as Gauss did it, by least squares: the Jacobian
of all directions makes the problem linear, again and again.  The same Jacobian tells how sure the prediction is.
"""

import numpy as np

import autodiff as ad

SUN = 4 * np.pi**2  # G times its mass, in astronomical units and years
JUPITER = SUN / 1047.0
DAY = 1 / 365.25
NOISE = np.radians(3.0 / 3600)  # 3 seconds of arc
SEEN = np.array([0, 1, 2, 3, 9, 10, 12, 13, 17, 18, 21, 22, 27, 29, 30, 31, 32, 34, 37, 40, 41])  # days


def on_circle(day, radius, start):
    """The place of a planet on a circle around the Sun.   f[n] -> f[n,2]"""
    angle = start + np.sqrt(SUN / radius**3) * DAY * day
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def pull(place, jupiter):
    """The acceleration by the Sun and Jupiter.   f[2], f[2] -> f[2]"""
    apart = jupiter - place
    return JUPITER * apart / ad.sum(apart**2) ** 1.5 - SUN * place / ad.sum(place**2) ** 1.5


def path(start, days):
    """The place on each day, by the leapfrog method.   f[4] (place, velocity) -> f[days + 1, 2]"""

    def move(state, jupiter):
        place, velocity = state
        halfway = place + 0.5 * DAY * velocity
        velocity = velocity + DAY * pull(halfway, jupiter)
        return (halfway + 0.5 * DAY * velocity, velocity), place

    (last, _), places = ad.scan(move, (start[:2], start[2:]), on_circle(np.arange(days) + 0.5, 5.2, 2.0))
    return ad.concatenate([places, last[None]])


def directions(start, days):
    """The direction from the Earth on each day, in radians.   f[4] -> f[days + 1]"""
    line = path(start, days) - on_circle(np.arange(days + 1), 1.0, 1.7)
    return ad.arctan2(line[:, 1], line[:, 0])


@ad.jit
def residuals(start, seen):
    """Differences to the directions seen, in units of their noise.   f[4], f[n] -> f[n]"""
    return ad.sin(directions(start, int(SEEN[-1]))[SEEN] - seen) / NOISE


def circular_guess(direction, distance):
    """A first guess from one direction: a circle around the Sun, at some distance from the Earth.   f[4]"""
    place = on_circle(0.0, 1.0, 1.7) + distance * np.array([np.cos(direction), np.sin(direction)])
    velocity = np.sqrt(SUN / np.linalg.norm(place) ** 3) * np.array([-place[1], place[0]])
    return np.concatenate([place, velocity])


def main():
    rng = np.random.default_rng(1801)
    truth = np.array([0.90, 2.45, -3.55, 1.05])
    seen = directions(truth, 41).numpy()[SEEN] + NOISE * rng.normal(size=SEEN.size)

    start = circular_guess(seen[0], 1.2)
    jacobian = ad.jit(ad.jacobian(residuals))
    fitted, misfits, slopes = start, [], np.zeros((SEEN.size, 4))
    for _ in range(10):  # Gauss's method: a linear problem of least squares in each step
        r, slopes = np.asarray(residuals(fitted, seen)), np.asarray(jacobian(fitted, seen))
        misfits.append(r.std())
        fitted = fitted - np.linalg.lstsq(slopes, r)[0]
    print("misfit, in units of the noise:", " ".join(f"{m:.2f}" for m in misfits))

    covariance = np.linalg.inv(slopes.T @ slopes)
    later = 365
    by_start = np.asarray(ad.jacobian(directions)(fitted, later))  # the derivative of a year of directions
    sigma = np.degrees(np.sqrt(np.einsum("ij,jk,ik->i", by_start, covariance, by_start)))
    error = np.degrees(np.asarray(directions(fitted, later)) - directions(truth, later).numpy())
    circle = np.degrees(np.asarray(directions(start, later)) - directions(truth, later).numpy())
    error, circle = ((e + 180) % 360 - 180 for e in (error, circle))
    print(f"after a year the direction is wrong by {error[-1]:+.2f} degrees, with {sigma[-1]:.2f} expected;"
          f" the first guess, a circle, by {circle[-1]:+.0f}")  # fmt: skip
    assert misfits[-1] < 1.5 and abs(error[-1]) < 3 * sigma[-1] and abs(error[-1]) < 2.0
    orbits = {"true orbit": truth, "first guess": start, "fitted": fitted}
    return {"orbits": orbits, "seen": seen, "error": error, "sigma": sigma}


def draw(figure, found):
    """The orbits with the lines of sight, and the error of the prediction beside its expected size."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.4])
    earth = on_circle(SEEN, 1.0, 1.7)
    for place, angle in zip(earth[::3], found["seen"][::3], strict=True):
        left.plot(*np.stack([place, place + 4 * np.array([np.cos(angle), np.sin(angle)])]).T, color="C4", lw=0.5)
    left.plot(*on_circle(np.arange(366), 1.0, 1.7).T, color="C4", lw=1)
    for name, style, width in (("true orbit", "C4-", 5.0), ("first guess", "C1:", 1.5), ("fitted", "C0-", 1.5)):
        left.plot(*np.asarray(path(found["orbits"][name], 1690)).T, style, lw=width, label=name)
    left.plot(0, 0, "o", color="C1")
    left.set(title="41 days of directions", aspect="equal", xlim=(-4, 4), ylim=(-3.2, 4.6))
    left.set_axis_off()
    left.legend(loc="lower left", ncols=3, fontsize=7, columnspacing=0.8, handlelength=1.5)
    days = np.arange(len(found["error"]))
    right.fill_between(days, -2 * found["sigma"], 2 * found["sigma"], alpha=0.25, lw=0, label="two deviations expected")
    right.plot(days, found["error"], label="error of the prediction")
    right.axvspan(0, 41, color="C4", alpha=0.3, lw=0)
    right.set(title="where to look a year later", xlabel="days", ylabel="degrees")
    right.legend(loc="lower left")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
