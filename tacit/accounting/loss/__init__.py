"""Privacy loss of sums of discrete Laplaces and of their shares, bounded from above.

Noise: Z = X - Y, X, Y ~ NegativeBinomial(R, a), a = e^(-1/b): a Polya difference of weight R, the
sum of R discrete Laplaces of scale b. What a release loses at epsilon, for a value that changes by
at most Delta (L1, ring units), is

    delta(epsilon) = max_{s <= Delta} sum_z max(0, P(z) - e^epsilon P(z - s)).

Every figure here is an upper bound: approximations enter with their error bounds on the side that
makes delta larger. Facts used (R is what the adversary cannot subtract; more noise never hurts):

1. R >= 1 holds one whole discrete Laplace: epsilon = Delta/b, delta = 0, in any dimension.
2. The law is symmetric and unimodal for every R > 0, and so is every mixture and every sum of such
   laws. Then in *one* dimension s = Delta is the worst shift: a term with z > s/2 is 0, since
   |z - s| <= |z|; a term with z <= s/2 has |z - s| = s - z, which grows with s.
3. R >= 1 is log-concave. Then {P(z) > e^epsilon P(z - Delta)} is a half-line, so
   delta = F(z) - e^epsilon F(z - Delta) at its end; and in d dimensions the worst change puts all
   of Delta into one coordinate (shift families of log-concave laws compose as a semigroup).
   R < 1 is not log-concave: for d > 1 spreading the change is worse, and nothing is stated.
4. R = k whole: P(z) = (1-a)^(2k) a^z sum_i c_i C(z, k-1-i), z >= 0, where
   c_i = sum_{m=k-1}^{k-1+i} m! / ((m-i)! (m-k+1)! (i+k-1-m)!) x^(m-k+1) / (1-x)^(m+1), x = a^2
   (Vandermonde's identity in sum_y C(z+y+k-1, k-1) C(y+k-1, k-1) x^y). Only positive terms: the
   relative error in floating point is a few hundred units in the last place, in the tails too.
   An FFT instead has an *absolute* floor near 1e-16, and e^epsilon stands in front of it.
5. R = k whole, large Delta: a geometric is its low digits plus an independent coarse geometric.
   So X - Y with a is a function of the one with a^m, and delta at ceil(Delta/m) units with scale
   b/m bounds the fine one. Not so for fractional R.
6. 0 < R < 1: on z >= 0 the law is a mixture of geometrics,
   P(z) = (1-a)^(2R) sin(pi R)/pi int_0^1 (at)^z t^(R-1) (1-t)^(-R) (1-a^2 t)^(-R) dt
   (Beta integral for Gamma(k+R)/k!). So P is log-convex there, P(z)/P(z-Delta) is largest at
   z = 0 and falls to both sides, and delta is a difference of tail sums, each of them the same
   integral with one more factor 1/(1-at). With t = e^(-x/b) the integrand is convex in x (a
   product of decreasing log-convex functions): trapezoids lie above, midpoints below. The cost
   does not depend on Delta: no grid, no coarse grid.
7. A truncated tail is added to delta whole (Chernoff): handing the truncated law on would lose it.
8. R > 1 not whole: the backward recurrence f(z)/f(z-1) = a(z-1+R) / ((1+a^2) z
   - a(z+1-R) f(z+1)/f(z)) in 50-digit decimals; its map contracts by a^2 a step, so starting 30 b
   beyond the window leaves a relative error below e^-60.

Spec: aggregation, section 7. Sources: Ghosh, Roughgarden and Sundararajan (2009) for the discrete
Laplace; B. Balle and Y.-X. Wang (2018) for the hockey-stick form of delta.
"""
