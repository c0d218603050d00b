/*
Package regression decides whether a new version of a service fails more often than the version before it, is slower or needs more
tokens, while the new version rolls out.

	Cells: calls by stage, position in the conversation and time
	   └─> Compare: slices of calls of both versions ─> Test per stage ─> Result: evidence, and what is ruled out

# Why a sequential test

A deployment is looked at every few seconds, and is to be stopped at once if the new version is worse. A test with a fixed
number of calls, repeated at each look, raises a false alarm sooner or later. The evidence E of a Test is a test martingale:
if the new version is not worse, its expected value is at most 1 at every time, and by Ville's inequality the probability
that it ever reaches 1/alpha is at most alpha, no matter how often one looks and when one stops.

	J. Ville, Étude critique de la notion de collectif, 1939
	A. Ramdas, P. Grünwald, V. Vovk, G. Shafer, Game-Theoretic Statistics and Safe Anytime-Valid Inference, Statistical Science 38(4), 2023
	R. Turner, A. Ly, P. Grünwald, Generic E-variables for Exact Sequential k-Sample Tests that Allow for Optional Stopping,
	Journal of Statistical Planning and Inference 230, 2024

# The test

A slice has n calls of the new and o calls of the old version from the same time, of which m failed, x of them of the new
version. If both versions fail alike, x has the hypergeometric distribution, given m; if the odds of a failure are w times as
high in the new version, x has Fisher's noncentral hypergeometric distribution:

	P(x; w) = C(n,x) C(o,m-x) w^x / M(w),   M(w) = sum over k of C(n,k) C(o,m-k) w^k

For any w above Tolerance t, the product over the slices of P(x; w)/P(x; t) = (w/t)^x M(t)/M(w) is a test martingale if the
odds ratio is t, and a supermartingale if it is lower, because the factor increases in x and x is then stochastically
smaller. Since the odds ratio is unknown, E is the mean over the odds ratios of a fixed grid. This is the stratified test of
Cochran, Mantel and Haenszel in its exact form, made sequential: only calls of the same slice are compared, so an outage of the
provider that hits both versions is no evidence, whatever the rate of failures does over time. The exact M(w) is used and not
Hoeffding's bound (1-q+qw)^m, q = n/(n+o), for draws without replacement (Probability Inequalities for Sums of Bounded Random
Variables, 1963, section 6), because the bound wastes most of the evidence where nearly all calls of the new version fail: with
5 calls of each, all new ones failed, it yields at most 2^5 = 32, and the exact form C(10,5) = 252.

The reverse ratio, P(x; 1)/P(x; w), tests whether the odds ratio is w or more. It yields the smallest regression that the calls
rule out, with the same guarantee.

# Why one failure per conversation

Failures cluster: a broken conversation fails again with each request, and callers retry. Calls of one conversation are not
independent, so the trials are those calls before which no call of their conversation in that stage has failed, in either
version. A conversation counts as failed once, for the version that it failed in. This is the discrete log-rank test. Later
calls of a conversation have longer histories and other odds of a failure, and conversations that survive are the healthy
ones; so only calls of about the same position in their conversation are compared. A new version has younger conversations
than the old one, and would otherwise be blamed or excused for that.

# What else is compared

Durations, tokens and other measures of calls are compared as failures are: a call above the 95th percentile of the old version, as it was
before the first call of the new one, counts as failed. Whatever that limit is, calls of two equal versions are above it equally often, so
the evidence stays a martingale. The tolerance is MeasureTolerance, because a version may be a little slower. Of the total evidence, failures
have half of the weight and the measures share the rest, so alpha is the probability for all of them together.

# What the versions are compared with

Calls of both versions at the same time are compared wherever there are any. If the old version had no calls for a while, or hardly
any, as after a rollout that replaces everything at once, new calls are compared with the last calls of the old version before them,
each used once. The assumption is then that the rate of failures would have stayed the same. It does not hold for failures of
the provider, which are not compared in such slices, and not for durations, which are the provider's.
*/
package regression
