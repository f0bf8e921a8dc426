"""The reference values of reference.json: SciPy, statsmodels and NumPy.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install scipy==1.17.1 statsmodels==0.15.0
    /tmp/v/bin/python runtime/statistics/tests/reference.py > runtime/statistics/tests/reference.json
"""

import json
import math
from itertools import product

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import optimize, stats
from scipy.special import comb
from statsmodels.formula.api import ols
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

out = {}

pairs = [(0, 6), (6, 0), (12, 5), (1, 1), (0, 1), (3, 3), (40, 61), (300, 371), (0, 60), (1000, 1100)]
out["mcnemar"] = [
    {"a": a, "b": b,
     "exact": float(mcnemar([[0, a], [b, 0]], exact=True).pvalue),
     "mid": float(1 - stats.binom.pmf(a, a + b, 0.5)) if a == b else
     float(2 * stats.binom.cdf(min(a, b) - 1, a + b, 0.5) + stats.binom.pmf(min(a, b), a + b, 0.5))}
    for a, b in pairs
]

out["wilson"] = [
    {"successes": s, "trials": n, "level": level,
     "interval": [float(x) for x in proportion_confint(s, n, alpha=1 - level, method="wilson")]}
    for s, n, level in [(2, 3, 0.95), (0, 10, 0.95), (10, 10, 0.95), (57, 200, 0.95), (1, 500, 0.99), (4999, 10000, 0.9)]
]

# Bonett and Price 2012, equation 3.
def bonett_price(a, b, n, level):
    p, q = (a + 1) / (n + 2), (b + 1) / (n + 2)
    half = stats.norm.ppf(0.5 + level / 2) * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
    d = (a - b) / n
    return agreeing([min(p - q - half, d), max(p - q + half, d)], d, exact(a, b), 1 - level)

def exact(a, b):
    return float(mcnemar([[0, a], [b, 0]], exact=True).pvalue)

# The interval's ends agree with the test, using Miettinen's test-based interval.
def agreeing(interval, d, p, alpha):
    low, high = interval
    z = -stats.norm.ppf(p / 2)
    if d != 0 and z > 0:
        reach = abs(d) * stats.norm.ppf(1 - alpha / 2) / z
        if p >= alpha and not low <= 0 <= high:
            low, high = min(low, d - reach, 0), max(high, d + reach, 0)
        elif p < alpha and low <= 0 <= high:
            low, high = (d - reach, high) if d > 0 else (low, d + reach)
    return [float(max(-1.0, low)), float(min(1.0, high))]

out["difference"] = [
    {"a": a, "b": b, "tasks": n, "interval": bonett_price(a, b, n, 0.95)}
    for a, b, n in [(12, 5, 200), (6, 0, 6), (0, 0, 4), (1, 7, 21), (90, 20, 500), (5, 0, 5), (6, 0, 100), (2, 0, 2)]
]

lists = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.9], [0.2], [0.001, 0.001, 0.02, 0.9, 0.04, 0.3]]
out["holm"] = [{"values": v, "adjusted": [float(x) for x in multipletests(v, method="holm")[1]]} for v in lists]

out["pass_k"] = [
    {"n": n, "c": c, "k": k, "at": float(1 - comb(n - c, k, exact=True) / comb(n, k, exact=True)),
     "hat": float(comb(c, k, exact=True) / comb(n, k, exact=True))}
    for n, c, k in [(5, 2, 1), (5, 2, 3), (5, 5, 5), (5, 0, 2), (200, 37, 10), (10, 9, 2), (8, 3, 6)]
]

groups = [
    [[1, 1, 0], [0, 0, 0], [1, 0, 1], [1, 1, 1]],
    [[0.5, 0.75], [0.1, 0.2, 0.15], [1.0, 0.9, 1.0, 0.95], [0.0, 0.4]],
    [[1, 0], [0, 1], [1, 0]],
]
out["variance"] = []
for tasks in groups:
    frame = pd.DataFrame([{"task": str(t), "y": float(y)} for t, ys in enumerate(tasks) for y in ys])
    table = sm.stats.anova_lm(ols("y ~ C(task)", frame).fit())
    between, within = table["mean_sq"]["C(task)"], table["mean_sq"]["Residual"]
    sizes = np.array([len(ys) for ys in tasks])
    typical = (sizes.sum() - (sizes ** 2).sum() / sizes.sum()) / (len(tasks) - 1)
    out["variance"].append({"tasks": tasks, "between": max(0.0, float((between - within) / typical)), "within": float(within)})

# Pass the distribution to scipy.stats.bootstrap as an earlier result and compute BCa from it.
rng = np.random.default_rng(7)
out["bca"] = []
for sample in ([float(x) for x in rng.exponential(size=12).round(3)], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5]):
    data = (np.array(sample),)
    first = stats.bootstrap(data, np.mean, n_resamples=499, method="BCa", rng=rng)
    again = stats.bootstrap(data, np.mean, n_resamples=0, method="BCa", bootstrap_result=first)
    interval = again.confidence_interval
    jackknife = [float(np.mean(np.delete(data[0], i))) for i in range(len(sample))]
    out["bca"].append({"distribution": sorted(float(x) for x in first.bootstrap_distribution), "estimate": float(np.mean(sample)),
                       "jackknife": jackknife, "interval": [float(interval.low), float(interval.high)]})

out["signs"] = []
for values in ([1.0, 1.0, -1.0, 1.0, 0.0, 1.0], [0.5, -0.25, 0.75, 1.0, 0.1, -0.1, 0.3], [1.0] * 6):
    observed = abs(sum(values))
    hits = [abs(sum(s * v for s, v in zip(signs, values))) >= observed - 1e-9 for signs in product([1, -1], repeat=len(values))]
    out["signs"].append({"values": values, "p": float(np.mean(hits)),
                         "scipy": float(stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue)
                         if len(set(values)) > 1 else float(np.mean(hits))})

out["student"] = []
for values in ([1200.0, -300.0, 450.0, 80.0], [1.0, 2.0]):
    v = np.array(values)
    low, high = stats.t.interval(0.95, len(v) - 1, loc=v.mean(), scale=stats.sem(v))
    out["student"].append({"values": values, "interval": [float(low), float(high)]})

z = lambda p: float(stats.norm.ppf(p))

# The power of McNemar's exact test, summed over all numbers of discordant tasks and their splits.
def exact_power(n, d, psi, alpha):
    power = 0.0
    for m in range(n + 1):
        splits = np.arange(m + 1)
        called = np.minimum(1, 2 * stats.binom.cdf(np.minimum(splits, m - splits), m, 0.5)) < alpha
        chances = stats.binom.pmf(splits, m, (psi + d) / (2 * psi))
        power += stats.binom.pmf(m, n, psi) * float(chances[called].sum())
    return float(power)

out["power"] = [
    {"tasks": n, "difference": d, "discordant": psi, "alpha": alpha, "power": exact_power(n, d, psi, alpha)}
    for n, d, psi, alpha in [(6, 1, 1, 0.05), (17, 0.5, 0.5, 0.05 / 3), (39, 0.2, 0.2, 0.05), (168, 0.1, 0.2, 0.05),
                             (47, 0.5, 0.6, 0.05 / 528), (430, 0.05, 0.1, 0.05 / 3), (575, 0.035, 0.085, 0.05)]
]
out["mean_power"] = [
    {"difference": d, "deviation": s, "comparisons": m,
     "tasks": math.ceil(((z(1 - 0.025 / m) + z(0.8)) * s / d) ** 2 + z(1 - 0.025 / m) ** 2 / 2),
     "smallest": (z(1 - 0.025 / m) + z(0.8)) * s / math.sqrt(50 - z(1 - 0.025 / m) ** 2 / 2)}
    for d, s, m in [(0.05, 0.4, 1), (1200.0, 9000.0, 1), (0.05, 0.4, 6)]
]

out["kendall"] = [
    {"a": a, "b": b, "tau": float(stats.kendalltau(a, b).statistic)}
    for a, b in [([12.5, 11.0, 10.5, 5.0, 5.5, 3.5, 4.5], [41.66, 43.29, 45.53, 32.43, 26.30, 24.55, 30.08]),
                 ([1.0, 2.0, 2.0, 3.0], [1.0, 1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0])]
]

# The percentile bootstrap over tasks. With `nested` the second set is the union of both.
out["rank_agreement"] = []
for seed, nested in [(4, False), (4, True), (8, False), (8, True)]:
    draw = np.random.default_rng(seed)
    rows = lambda shares, count: np.array([[float(draw.random() < share) for share in shares] for _ in range(count)])
    a, b = rows([0.2, 0.35, 0.5, 0.75], 24), rows([0.25, 0.3, 0.6, 0.7], 30)
    def tau(a, b):
        second = np.concatenate([a, b]) if nested else b
        return stats.kendalltau(a.mean(0).round(9), second.mean(0).round(9)).statistic
    again = np.random.default_rng(1)
    taus = np.array([tau(a[again.integers(0, len(a), len(a))], b[again.integers(0, len(b), len(b))]) for _ in range(20000)])
    taus = taus[~np.isnan(taus)]
    # Encode a row as text with one digit per arm.
    text = lambda rows: ["".join(str(int(score)) for score in row) for row in rows]
    out["rank_agreement"].append({"a": text(a), "b": text(b), "nested": nested, "tau": float(tau(a, b)),
                                  "interval": [float(np.quantile(taus, end)) for end in (0.025, 0.975)]})

# Fieller 1954: the interval contains each ratio r for which the mean of y - r * x is not significantly different from
# 0. Its ends are the roots of `off`. If there is no upper root, the interval is unbounded.
def fieller(tasks, level):
    y, x = np.array(tasks, float).T
    n = len(y)
    t = stats.t.ppf(0.5 + level / 2, n - 1)
    off = lambda r: (y.mean() - r * x.mean()) ** 2 - t ** 2 * np.var(y - r * x, ddof=1) / n
    value = y.sum() / x.sum()
    root = lambda low, high: float(optimize.brentq(off, low, high, xtol=1e-15, rtol=8.9e-16))
    bounded = x.mean() ** 2 > t ** 2 * np.var(x, ddof=1) / n
    return {"numerators": [p[0] for p in tasks], "denominators": [p[1] for p in tasks], "value": float(value),
            "lower": root(0, value) if off(0) > 0 else 0.0, "upper": root(value, 1e6 * value) if bounded else None}

draw = np.random.default_rng(3)
cost = lambda count: [round(float(v), 3) for v in draw.lognormal(-1, 0.6, count)]
out["ratio"] = []
for count, rate in [(30, 0.5), (30, 0.07), (12, 0.8)]:
    hits = [float(draw.random() < rate) for _ in range(count)]
    out["ratio"].append(fieller([list(pair) for pair in zip(cost(count), hits)], 0.95))
twenty = cost(20)
out["ratio"].append(fieller([[v, round(v * float(f), 4)] for v, f in zip(twenty, draw.uniform(0.5, 1.1, 20))], 0.95))

print(json.dumps(out, indent=1))
