"""Statistics are what other ways to compute them give, and their intervals hold the truth as often as they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mean_actor_critic.reports import statistics
from mean_actor_critic.reports.digits import (
    decimals,
    decimals_of,
    exact,
    interval,
    interval_heading,
    rounded,
    with_interval,
)
from mean_actor_critic.reports.statistics import (
    Estimate,
    Summary,
    differences,
    episodes_to_threshold,
    final_scores,
    holm,
    interquartile_mean,
    median_episodes,
    probability_of_improvement,
    summarise,
    trial_scores,
)

NAN, INF = float("nan"), float("inf")


def samples(least=2, most=20):
    """Values with few digits, so that some are equal and none differ by rounding alone."""
    return st.lists(st.integers(-999, 999).map(lambda i: i / 8), min_size=least, max_size=most).map(np.array)


# scores


def test_a_trial_scores_its_mean_over_the_first_or_the_last_episodes():
    returns = np.array([[1.0, 3.0, 100.0], [2.0, 4.0, 200.0]])
    np.testing.assert_allclose(trial_scores(returns, 2), [2.0, 3.0])
    np.testing.assert_allclose(final_scores(returns, 2), [51.5, 102.0])
    np.testing.assert_allclose(final_scores(returns), trial_scores(returns))


@settings(max_examples=50, deadline=None)
@given(
    returns=arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=st.integers(0, 4)),
    threshold=st.integers(0, 4),
    window=st.integers(1, 5),
)
def test_a_threshold_is_reached_by_the_first_trailing_mean_that_is_as_high(returns, threshold, window):
    for trial, found in zip(returns, episodes_to_threshold(returns, threshold, window), strict=True):
        expected = INF
        for episode in range(len(trial), window - 1, -1):
            if sum(trial[episode - window : episode]) >= threshold * window:
                expected = episode
        assert found == expected


# one sample


def test_a_summary_is_mean_sd_and_nearly_student_s_interval_of_normal_values():
    values = np.random.default_rng(0).normal(50, 10, 100)
    summary = summarise(values)
    assert summary.mean == pytest.approx(values.mean())
    assert summary.sd == pytest.approx(stats.tstd(values))
    assert summary.n == 100
    student = stats.t.interval(0.95, 99, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose((summary.low, summary.high), student, atol=0.1)
    assert summarise(values[::-1]) == summary


@pytest.mark.parametrize(("n", "errors"), [(100, 0.05), (500, 0.1)])  # 500: resampled in several blocks
def test_the_interval_of_a_mean_leans_as_far_to_the_skewed_side_as_hall_s(n, errors):
    values = 200 - np.random.default_rng(1).gamma(2.0, 10.0, n)
    t, skew = stats.t.ppf(0.975, n - 1), stats.skew(values) / (6 * np.sqrt(n))
    hall = values.mean() + stats.sem(values) * (np.array([-t, t]) + skew * (2 * t**2 + 1))
    np.testing.assert_allclose(summarise(values)[2:4], hall, atol=errors * stats.sem(values))


@settings(max_examples=50, deadline=None)
@given(samples(least=1))
def test_the_interquartile_mean_is_scipy_s(values):
    assert interquartile_mean(values).mean == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-9)


def test_the_interval_of_an_interquartile_mean_is_nearly_that_of_the_other_bootstrap():
    values = np.random.default_rng(2).normal(50, 10, 101) ** 2
    found = interquartile_mean(values)
    other = stats.bootstrap((values,), lambda x, axis: stats.trim_mean(x, 0.25, axis), rng=3).confidence_interval
    np.testing.assert_allclose((found.low, found.high), other, atol=0.1 * (other.high - other.low))


@settings(max_examples=30, deadline=None)
@given(values=samples(), shift=st.integers(-500, 500), scale=st.sampled_from([0.25, 3.0, 100.0]))
@pytest.mark.parametrize("summary", [summarise, interquartile_mean])
def test_intervals_move_and_stretch_with_the_values(summary, values, shift, scale):
    before, after = summary(values), summary(scale * values + shift)
    np.testing.assert_allclose(after[0], scale * before.mean + shift, atol=1e-6)
    np.testing.assert_allclose(after[1], scale * before.sd, atol=1e-6)
    np.testing.assert_allclose(after[2:4], scale * np.array(before[2:4]) + shift, atol=1e-6)
    assert before.low <= before.mean <= before.high


@pytest.mark.parametrize("summary", [summarise, interquartile_mean])
def test_values_that_allow_no_interval_have_a_dash_and_equal_ones_a_point(summary):
    assert summary([3.0])[:1] + summary([3.0])[4:] == (3.0, 1)
    for values in ([3.0], [], [1.0, NAN, 2.0], [INF] * 8, [-INF, INF]):
        assert interval(summary(values), 1) == "–"
    assert summary([INF] * 8).mean == INF
    assert interval(summary([3.0] * 6), 1) == "[3.0, 3.0]"
    assert summary([0.1] * 7) == Summary(0.1, 0.0, 0.1, 0.1, 7)


@pytest.mark.parametrize("summary", [summarise, interquartile_mean])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_a_few_values_have_their_range_and_say_so(summary, n):
    values = np.random.default_rng(n).normal(100, 50, n)
    found = summary(values)
    assert (found.low, found.high) == (values.min(), values.max())
    assert interval(found, 0) == f"{values.min():.0f} to {values.max():.0f} (range of {n})"
    assert with_interval(found, 1) == f"{found.mean:.1f}"  # no interval to stand beside it
    assert interval_heading([found, summary([1.0])]) == "range"
    assert interval_heading([found, summary(range(6))]) == "95 % interval or range"
    assert interval_heading([summary([1.0])]) == "95 % interval"


@settings(max_examples=50, deadline=None)
@given(values=samples(least=2))
@pytest.mark.parametrize("summary", [summarise, interquartile_mean])
def test_no_interval_goes_beyond_what_was_seen(summary, values):
    found = summary(values)
    assert values.min() <= found.low <= found.mean <= found.high <= values.max()


def test_an_interval_is_cut_off_where_the_values_end():
    values = [20.0] + [200.0] * 5  # Student's would reach beyond the most that an episode can return
    assert stats.t.interval(0.95, 5, loc=np.mean(values), scale=stats.sem(values))[1] > 200
    found = summarise(values)
    assert 20 < found.low < found.mean
    assert found.high == 200


def test_an_interquartile_mean_between_failures_and_a_ceiling_is_the_ceiling():
    assert interquartile_mean([20.0] * 3 + [200.0] * 97)[2:4] == (200.0, 200.0)


@pytest.mark.parametrize("n", [6, 7, 30, 99, 100, 101])
def test_a_median_lies_between_the_order_statistics_of_the_sign_test(n):
    values = np.random.default_rng(n).normal(size=n)
    found = median_episodes(values)
    sign_test = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    assert found == Estimate(np.median(values), sign_test.low, sign_test.high)


def test_a_median_copes_with_trials_that_never_get_there():
    assert median_episodes([*range(1, 92), *[INF] * 9]) == Estimate(50.5, 40, 61)
    assert median_episodes([*range(1, 51), *[INF] * 50]) == Estimate(INF, 40, INF)
    assert median_episodes([INF] * 100) == Estimate(INF, INF, INF)
    assert median_episodes([INF] * 3).value == INF
    few = median_episodes([1.0, 2.0, 3.0, 4.0, INF])
    assert few.value == 3
    assert interval(few, 1) == "–"
    assert np.isnan(median_episodes([]).value)


# digits


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1.0, 1.4], 3),
        ([0.021, 0.05], 4),
        ([20.0, 198.3], 1),
        ([-180.0, 240.0], 1),
        ([183.6, 187.0], 1),
        ([5432.0, 6072.0], 0),
        ([100_000.0, 123_456.0], 0),
        ([1000.01, 1000.04], 3),  # told apart
        ([99_999.25, 100_000.5], 1),  # but not beyond what is stored
        ([200.0, 200.0], 1),
        ([0.0, 0.0], 1),
        ([NAN, INF, 150.0], 1),
        ([], 1),
    ],
)
def test_digits_follow_the_numbers_that_are_shown_together(values, expected):
    assert decimals(values) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1))
def test_different_numbers_are_told_apart_by_the_digits_that_they_are_shown_with(values):
    digits = decimals(values)
    spread, largest = max(values) - min(values), max(map(abs, values))
    if spread > 1e-6 * largest:
        assert rounded(max(values), digits) != rounded(min(values), digits)


def test_numbers_as_text():
    assert rounded(-0.04, 1) == "0.0"  # without a sign
    assert rounded(NAN, 1) == "–"
    assert rounded(12345.6, 0) == "12346"
    assert with_interval(None, 1) == ""
    assert with_interval(Estimate(0.5, 0.25, 0.75), 2) == "0.50 [0.25, 0.75]"
    assert (exact(0.000123456789), exact(123456.789), exact(NAN), exact(INF)) == ("0.0001234568", "123456.8", "", "inf")
    assert decimals_of([Summary(0.5, 0.1, 0.25, 1.25, 8), None]) == 3


# two samples


@settings(max_examples=50, deadline=None)
@given(ours=samples(), theirs=samples())
def test_the_probability_of_improvement_is_mann_and_whitney_s(ours, theirs):
    found, turned = probability_of_improvement(ours, theirs), probability_of_improvement(theirs, ours)
    u = stats.mannwhitneyu(ours, theirs, method="exact").statistic
    assert found.value == pytest.approx(u / (len(ours) * len(theirs)))
    assert 0 <= found.low <= found.value <= found.high <= 1
    np.testing.assert_allclose(turned, (1 - found.value, 1 - found.high, 1 - found.low), atol=1e-9)
    assert (
        probability_of_improvement(np.exp(ours[::-1] / 50), np.exp(theirs / 50)) == found
    )  # only who beats whom counts


def test_the_interval_of_an_improvement_is_wilson_s_for_as_many_pairs_as_the_variance_says():
    random = np.random.default_rng(0)
    ours, theirs = random.normal(0.5, 1, 30), random.normal(0, 2, 20)
    share, *limits = probability_of_improvement(ours, theirs)
    beats = np.array([[x > y for y in theirs] for x in ours])
    variance = beats.mean(axis=1).var(ddof=1) / 30 + beats.mean(axis=0).var(ddof=1) / 20
    for limit in limits:
        at_limit = variance * limit * (1 - limit) / (share * (1 - share))
        assert abs(share - limit) == pytest.approx(stats.norm.ppf(0.975) * np.sqrt(at_limit))


def test_complete_separation_is_no_certainty():
    value, low, high = probability_of_improvement(np.arange(100, 200), np.arange(50))
    assert (value, high) == (1.0, 1.0)
    assert low == pytest.approx(stats.binomtest(50, 50).proportion_ci(method="exact").low)
    # one pair that goes the other way cannot say more for us
    assert probability_of_improvement(np.arange(100, 200), [*range(49), 100.5]).low <= low
    even = probability_of_improvement([200.0] * 100, [200.0] * 50)
    assert even == Estimate(0.5, pytest.approx(low / 2), pytest.approx(1 - low / 2))


def test_an_improvement_of_infinite_values_counts_and_one_value_allows_no_interval():
    assert probability_of_improvement([INF, INF, 1.0], [INF, 1.0, 1.0]).value == pytest.approx(6 / 9)
    assert np.isnan(probability_of_improvement([2.0], [1.0, 3.0]).low)
    assert np.isnan(probability_of_improvement([], [1.0]).value)


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's, of equal values
@settings(max_examples=50, deadline=None)
@given(ours=samples(), rivals=st.lists(samples(), min_size=1, max_size=4))
def test_welch_s_tests_are_scipy_s_and_corrected_upwards_in_their_order(ours, rivals):
    tests = differences(ours, rivals, [False] * len(rivals))
    for theirs, test in zip(rivals, tests, strict=True):
        assert test.difference == pytest.approx(ours.mean() - theirs.mean(), abs=1e-9)
        if np.ptp(ours) or np.ptp(theirs):
            expected = stats.ttest_ind(ours, theirs, equal_var=False)
            assert test.p == pytest.approx(expected.pvalue)
            np.testing.assert_allclose((test.low, test.high), expected.confidence_interval(0.95), atol=1e-6)
        assert test.p <= test.p_holm <= min(1, test.p * len(tests))
    assert differences(ours[::-1], rivals, [False] * len(rivals)) == tests
    by_p = sorted(tests, key=lambda test: test.p)
    assert [test.p_holm for test in by_p] == sorted(test.p_holm for test in tests)


def test_a_difference_of_values_without_variance_is_certain_and_of_one_value_none():
    same, other, one, never, none = differences([0.1] * 3, [[0.1] * 7, [0.3] * 2, [0.1], [INF] * 3, []], [False] * 5)
    assert same == (0, 0, 0, 1, 1)
    assert other == (pytest.approx(-0.2), pytest.approx(-0.2), pytest.approx(-0.2), 0, 0)
    assert one.difference == 0
    assert all(np.isnan(test.p_holm) for test in (one, never, none))
    assert differences([1.0, 2.0], [], []) == []
    pairs = differences([0.1, 0.2, 0.4], [[0.0, 0.1, 0.3], [INF] * 3], [True, True])
    assert pairs[0].p < 1e-9
    assert np.isnan(pairs[1].p)
    assert np.isnan(differences([0.1], [[0.2]], [True])[0].p)


@settings(max_examples=50, deadline=None)
@given(ours=samples(least=3), data=st.data())
def test_differences_of_pairs_are_scipy_s(ours, data):
    noise = data.draw(arrays(np.float64, len(ours), elements=st.integers(-99, 99)))
    (test,) = differences(ours, [ours + noise / 8], [True])
    assert test.difference == pytest.approx(-np.mean(noise / 8), abs=1e-9)
    if np.ptp(noise):
        expected = stats.ttest_rel(ours, ours + noise / 8)
        assert test.p == pytest.approx(expected.pvalue)
        np.testing.assert_allclose((test.low, test.high), expected.confidence_interval(0.95), atol=1e-6)


def test_holm_s_correction_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])  # 3 × .01, 2 × .03, 4 × .005
    np.testing.assert_allclose(holm([0.4, NAN, 0.9, 0.02]), [0.8, NAN, 0.9, 0.06])


# calibration, in small; in full: scripts/calibrate_intervals.py

STUDIES, TRIALS = 1000, 100
REACH = 3 * np.sqrt(0.95 * 0.05 / STUDIES)  # three standard errors, on either side of 95 %

KINDS = {
    "normal": lambda random, shape: random.normal(180, 10, shape),
    "near a ceiling": lambda random, shape: 200 - random.gamma(2.0, 10.0, shape),
    "with failures": lambda random, shape: random.normal(np.where(random.random(shape) < 0.05, 20, 185), 5),
}
MEANS = {"normal": 180, "near a ceiling": 180, "with failures": 0.05 * 20 + 0.95 * 185}


def coverage(kind, truth, interval):
    """Share of studies whose interval, of one sample of ours and one of theirs, holds the truth."""
    found = [interval(*pair) for pair in KINDS[kind](np.random.default_rng(0), (STUDIES, 2, TRIALS))]
    return np.mean([estimate.low <= truth <= estimate.high for estimate in found])


@pytest.fixture
def fewer_resamples(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 1999)


@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_means_hold_the_truth_in_95_percent_of_studies(kind):
    assert coverage(kind, MEANS[kind], lambda ours, _: summarise(ours)) == pytest.approx(0.95, abs=REACH)
    middle = stats.trim_mean(KINDS[kind](np.random.default_rng(1), 10**6), 0.25)
    assert coverage(kind, middle, lambda ours, _: interquartile_mean(ours)) == pytest.approx(0.95, abs=REACH)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("behind", [0, 5, 20])
def test_intervals_of_improvements_hold_the_truth_in_95_percent_of_studies(kind, behind):
    ours, theirs = KINDS[kind](np.random.default_rng(1), (2, 10**5))
    truth = probability_of_improvement(ours, theirs - behind).value
    found = coverage(kind, truth, lambda ours, theirs: probability_of_improvement(ours, theirs - behind))
    assert found == pytest.approx(0.95, abs=REACH)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("behind", [0, 5])
def test_intervals_of_improvements_allow_for_pairs_that_have_something_in_common(share, behind):
    random = np.random.default_rng(0)
    common, apart = random.normal(0, 10, (STUDIES, 1, TRIALS)), random.normal(0, 10, (STUDIES, 2, TRIALS))
    studies = np.sqrt(share) * common + np.sqrt(1 - share) * apart
    truth = stats.norm.cdf(behind / (10 * np.sqrt(2)))  # of one of ours and another's of theirs
    found = [probability_of_improvement(ours, theirs - behind, paired=True) for ours, theirs in studies]
    assert np.mean([low <= truth <= high for _, low, high in found]) == pytest.approx(0.95, abs=REACH)
    if share == 0.9:  # as if they were independent, the interval is far too wide
        widths = [np.ptp(probability_of_improvement(*pair)[1:]) for pair in studies[:50]]
        paired = [np.ptp(probability_of_improvement(*pair, paired=True)[1:]) for pair in studies[:50]]
        assert np.mean(paired) < 0.6 * np.mean(widths)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_improvements_near_certainty_hold_the_truth_no_less_often(kind):
    behind = {"normal": 33, "near a ceiling": 50, "with failures": 170}[kind]
    ours, theirs = KINDS[kind](np.random.default_rng(1), (2, 10**5))
    truth = probability_of_improvement(ours, theirs - behind).value
    assert truth == pytest.approx(0.99, abs=0.003)
    assert coverage(kind, truth, lambda ours, theirs: probability_of_improvement(ours, theirs - behind)) > 0.95 - REACH


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_medians_hold_the_truth_as_often_as_the_binomial_says_and_of_whole_numbers_more_often(kind):
    truth = np.median(KINDS[kind](np.random.default_rng(1), 10**6))
    exact = stats.binom.cdf(60, TRIALS, 0.5) - stats.binom.cdf(39, TRIALS, 0.5)  # between the 40th and the 61st
    assert coverage(kind, truth, lambda ours, _: median_episodes(ours)) == pytest.approx(exact, abs=REACH)
    assert coverage(kind, np.rint(truth), lambda ours, _: median_episodes(np.rint(ours))) >= exact - REACH
