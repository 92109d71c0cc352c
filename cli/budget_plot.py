"""A schedule's composed guarantee over time, drawn. Needs the extra `plots`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.runtime.extras import extra_needed

UNITS = {"record": "one reading", "curator": "a curator"}


def draw_forecast(found: dict[str, Any], path: Path) -> None:
    """Write the picture of a forecast; the ending of the file says in which format."""
    try:
        import matplotlib
    except ImportError:
        raise RuntimeError(extra_needed("drawing", "plots")) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    if path.suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{path}: a picture is .svg, .png or .pdf")
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for color, unit in zip(("tab:blue", "tab:orange"), UNITS, strict=True):
        points = [point for point in found["curve"] if point["unit"] == unit]
        basic = [(point["day"], point["basic"]["epsilon"]) for point in points]
        tight = [(point["day"], point["tight"]) for point in points]
        for style, label, line in (
            ("-", "basic, enforced", basic),
            ("--", f"tight at delta {found['delta']}", tight),
        ):
            days = [day for day, epsilon in line if epsilon != "inf"]
            epsilons = [float(epsilon) for _, epsilon in line if epsilon != "inf"]
            if days:
                axes.plot(days, epsilons, style, color=color, label=f"{UNITS[unit]}: {label}")
    axes.set_xlabel("days since the schedule began")
    axes.set_ylabel("epsilon, as each query assumes collusion")
    axes.set_yscale("log")
    axes.set_title(f"One round every {found['period_s']} s")
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.lines:
        axes.legend()
    else:
        axes.text(0.5, 0.5, "no finite guarantee", ha="center", transform=axes.transAxes)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
