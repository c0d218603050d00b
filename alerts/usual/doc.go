/*
Package usual knows what is usual of a measure of a series of calls, as the durations of the calls of a stage, and decides whether the
present is unusual.

	Sample of a minute ─┬─> Baseline.At: what is usual at this hour ─> Test: evidence ─> Result: since when, how much
	                    └─> Baseline.Learn

A Watch is both, for one measure: it is given each minute, and says whether there is an alarm. Everything is a pure function of the
samples. Baseline and Test have a binary form for the store, of 0.9 and 0.2 KB, and go on after a restart as if there had been none.

# What is measured

Of Values (durations, time to the first token, tokens, cost of a call), what is usual is the 95th percentile, and what is tested the
share of calls above it. Of an Amount (calls) and of Spend it is the amount per minute, and of a Share (errors of tools) the share.

# What is usual

A Baseline remembers one value of each hour of four weeks, in steps of a seventh of an octave: 672 bytes. From them it computes

  - Value: the median of this hour of the weeks before, with the hours beside it at half their weight, plus the level: by how much the
    last 72 hours were above what was usual of them, again the median. So growth and deployments are followed after a day and a half,
    and an outage or a weekend moves nothing.
  - Low and High: how far hours were from what was usual of them. In four weeks, two hours were farther; there are eight measures of a
    stage, so this distance is taken 1.2 times, which a normal distribution exceeds an eighth as often.

Before there is a week, it is this hour of the days before, and before that the last twelve hours. Usual.Basis says which. Low and High
are then far apart, until two weeks tell how far usual hours are apart: Usual.Young. An hour with ten unusual minutes has a tenth of
its weight: a problem is hardly learned, but what lasts for days is. Hours that were not recorded have no value. Accept makes what was
measured since a time the new normal, which is a level of its own.

An hour needs 100 calls for a percentile; fewer are added up over hours, of at most a day.

# The test

It is looked at every minute, forever, so a test with a fixed number of calls would raise false alarms. And nobody knows when
something begins, so a single sequential test that starts once would first have to make up for months of health. The evidence is
therefore the sum over all starts so far, one every five minutes, of the likelihood ratio since then, as Shiryaev and Roberts have it:

	E = sum over starts s of  product over minutes i ≥ s of P(x(i); alternative) / P(x(i); High)

If the present is not above High, the expected factor of each minute is at most 1, whatever the minutes before, and E minus the number
of starts is a supermartingale. So when E reaches a limit for the first time, the expected number of starts is at least that limit: the
mean time between false alarms is at least five minutes times the limit. This is what Config sets: one false alarm per month and
stage with 8 tested measures is a limit of 69,120, and 11.1 is its logarithm. The mean over six alternatives, from 1.25 to 20 times the
odds or the amount, replaces the unknown one, and is a supermartingale too. So is a factor that is cut, at a third of the limit's
logarithm: no single minute starts an alarm, as no single long conversation should. The mean time of the begin, weighted by the
evidence of each start, is Since.

	A. Shiryaev, On Optimum Methods in Quickest Detection Problems, Theory of Probability and Its Applications 8, 1963
	S. Roberts, A Comparison of Some Control Chart Procedures, Technometrics 8, 1966
	J. Shin, A. Ramdas, A. Rinaldo, E-detectors: A Nonparametric Framework for Sequential Change Detection,
	New England Journal of Statistics in Data Science 2(2), 2024

Calls are not independent: conversations have many, and callers come in bursts. For shares, the log of a factor is divided by the
dispersion, the variance of ten minutes around their hour in relation to that of independent calls, which is learned (quasi-likelihood;
P. McCullagh, J. Nelder, Generalized Linear Models, 1989). The number of calls has a negative binomial distribution, whose
variation from minute to minute is learned likewise; spend is counted in units of what a call costs. With these, the guarantee is as good
as the learned dispersion and as High, and no better. The simulation measures what remains.

More calls or money than usual for up to half an hour are a burst and no alarm, unless there is more than twice High; so is what is like
a burst of the last four weeks, up to an hour. Little spend is no alarm. An alarm ends after an hour that was usual.

# What was measured

Simulated are four weeks of stages from their first minute on, with 0.1, 1 and 10 calls a second: seasons of a day and a week, growth
of -2 to 12 % a week, a deployment every six days that changes durations by up to 15 % and tokens by up to 10 % for good, a holiday
of half of the stages, two bursts a week with 2 to 4 times the calls for 5 to 45 minutes, and slow noise of 12 % in traffic and 10 % in
latency. Arrivals from minute to minute and tokens are those of an hour of two real services (AzurePublicDataset, 2023), parts of which
follow each other at random. In the last week each anomaly is put twice into copies of each stage, for four hours. The figures:

	FIGURES
*/
package usual
