"""A year of days in two currencies: what one day costs, what 365 cost, and where a limit refuses.

    python year_of_days.py

It needs no service. The figures are those of docs/spec/budget.md.
"""

from fractions import Fraction

from tacit.accounting.amounts import Cost, scaled
from tacit.accounting.composition import ZcdpLimit, stated_epsilon

MILLIONTH = Fraction(1, 10**6)
LIMIT = ZcdpLimit(Fraction(8), MILLIONTH)
A_DAY = 2_883_172  # of rho, in 10^-9


def shown(value: Fraction | None) -> str:
    return "none" if value is None else f"{float(value):.3f}"


def rho_of(nano: int) -> str:
    """Rounded down to six digits."""
    return f"{nano // 1000 / 10**6:.6f}"


def main() -> None:
    most = LIMIT.most_rho()
    print(f"A limit of epsilon 8 at delta 10^-6 is rho {rho_of(most)}")
    alone = stated_epsilon(A_DAY, 0) or Fraction(0)
    for days in (1, 7, 30, 90, 180, 365):
        rho = days * A_DAY
        print(
            f"{days:3} days: rho {rho_of(rho)}, epsilon {shown(stated_epsilon(rho, 0))}; "
            f"epsilons added up {shown(days * alone)}"
        )
    for day in (365, 366):
        print(f"day {day}: {'admitted' if day * A_DAY <= most else 'refused'}")
    print("A round with other noise:")
    for epsilon in ("0.01", "0.1", "0.5", "1", "2"):
        amount = scaled(Cost(Fraction(epsilon), Fraction(0)))
        assert amount is not None
        print(f"epsilon {epsilon}: rho {rho_of(amount.rho)}, {most // amount.rho} rounds")
    print("Limits at delta 10^-6:")
    for whole in (1, 3, 4, 8):
        limit = ZcdpLimit(Fraction(whole), MILLIONTH)
        print(f"epsilon {whole}: rho {rho_of(limit.most_rho())}")


if __name__ == "__main__":
    main()
