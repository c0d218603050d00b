/*
Package usual knows what is usual of a measure of a series of calls, as the durations of the calls of a stage, and decides whether the
present is unusual.

	Sample of a minute ─┬─> Baseline.At: what is usual at this hour ─> Test: evidence ─> Result: since when, how much
	                    └─> Baseline.Learn

A Watch is both, for one measure: it is given each minute, and says whether there is an alarm. Everything is a pure function of the
samples. Baseline and Test have a binary form for the store, of 0.9 KB (and up to 0.2 KB for the open hour) and 0.4 KB, and go on after
a restart as if there had been none. A minute takes about 10 µs (BenchmarkWatch), the learning of a day included.

# What is measured

Of Values (durations, time to the first token, tokens, cost of a call), what is usual is the 95th percentile, and what is tested the
share of calls above it. Of an Amount (calls) and of Spend it is the amount per minute, and of a Share (errors of tools) the share.

# What is usual

A Baseline remembers one value of each hour of four weeks, in steps of a seventh of an octave: 672 bytes. From them it computes

  - Value: the median of this hour of the weeks before, with the hours beside it at half their weight, plus the level: by how much the
    last 72 hours were above what was usual of them, again the median. So growth and deployments are followed after a day and a half,
    and an outage or a weekend moves nothing.
  - Low and High: how far hours were from what was usual of them. In four weeks, two hours were farther; a stage has many
    measures, so this distance is taken 1.2 times, which a normal distribution exceeds a sixth as often.

Before there is a week, it is this hour of the days before, and before that the last twelve hours. Usual.Basis says which. Calls and
spend are tested once there is a week, because days of the week differ most in them. Low and High are far apart until two weeks tell
how far usual hours are apart: Usual.Young. An hour with ten unusual minutes has a tenth of
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
stage with 15 tests, of 14 measures, is a limit of 129,600, and 11.8 is its logarithm. The mean over six alternatives, from 1.25 to 20
times the odds or the amount, replaces the unknown one, and is a supermartingale too. So is a factor that is cut, at a third of the
limit's logarithm: no single minute starts an alarm, as no single long conversation should. The mean time of the begin, weighted by the
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

Traffic is so bursty that some usual hours have nearly half of it, so that Low is below half. Sums of three hours vary less. A stage
remembers, from the same hours, how far such sums were below what was usual of them, and calls are too few if those of the last three
hours are 4.15 deviations below. The deviation is what one sum in six exceeds, which holidays hardly change. A sum in the course of time
is about a Gaussian process, which passes z deviations z φ(z) times in the length of a sum, and so 4.15 is one false alarm in as many
months as there are tests. Sums that occur are usual: up to 1.2 times as far as one in a hundred is.

	J. Pickands, Upcrossing Probabilities for Stationary Gaussian Processes, Transactions of the American Mathematical Society 145, 1969

More calls or money than usual for up to half an hour are a burst and no alarm, unless there is more than twice High; so is what is like
a burst of the last four weeks, up to an hour. Fewer than a call a minute are no flood, and less than 0.5 % errors are usual. Little
spend is no alarm. An alarm ends after an hour that was usual.

# What was measured

Simulated are four weeks of stages from their first minute on, with 0.1, 1 and 10 calls a second: seasons of a day and a week, growth
of -2 to 12 % a week, a deployment every 5.6 days that changes durations by up to 15 % and tokens by up to 10 % for good, a holiday
of half of the stages, two bursts a week with 2 to 4 times the calls for 5 to 45 minutes, and slow noise of 12 % in traffic and 10 % in
latency. Arrivals from minute to minute and tokens are those of an hour of two real services (AzurePublicDataset, 2023), parts of which
follow each other at random. In the last week each anomaly is put twice into copies of each stage, for four hours. Of the alarms of a
stage within an hour, one is a warning.

Beside it, on the first 18 stages of the first seed: a threshold that a person sets once, at 1.5 times the highest and, for calls, half of
the lowest hour of the first week; a z-score of 3 over five minutes against the day before; and what the adaptive and robust
rules of grafana/promql-anomaly-detection compute, for calls, spend, errors and 95th percentiles over five minutes. What they had
an alarm for already when an anomaly began, they have not found.

	go test ./alerts/usual -run 'TestSimulation$' -slow -simulations 10 -v -timeout 3h

With 100 stages and real traffic, of the first two seeds: the constants were chosen on the first, and on the second, half the traffic was
found in 64, 80 and 70 %, with 0.99 warnings. The others have not run since sums are tested.

	per stage and month         llmtap     static     z-score   adaptive  robust
	warnings                    1.03       27.92      250.36    36.49     45.06
	  on a holiday              0.43       1.07       5.71      1.19      1.61
	  in a burst of calls       0.24       1.61       4.17      5.54      2.92
	  at other times            0.35       25.24      240.48    29.76     40.54
	alarms of all measures      1.16       31.67      454.29    46.79     53.21
	found, median minutes
	2 times the latency, 0.1/s  57 %, 63   67 %, 38   75 %, 13  25 %, 21  92 %, 44
	2 times the latency, 1/s    96 %, 20   100 %, 9   75 %, 2   92 %, 7   100 %, 39
	2 times the latency, 10/s   99 %, 9    67 %, 10   100 %, 2  100 %, 8  100 %, 39
	5 times the latency, 0.1/s  100 %, 7   92 %, 7    50 %, 2   100 %, 7  100 %, 37
	5 times the latency, 1/s    100 %, 4   100 %, 6   67 %, 1   100 %, 6  100 %, 38
	5 times the latency, 10/s   100 %, 5   100 %, 6   100 %, 1  100 %, 6  100 %, 38
	2 times the cost, 0.1/s     98 %, 28   33 %, 172  83 %, 24  83 %, 38  75 %, 92
	2 times the cost, 1/s       100 %, 11  17 %, 19   50 %, 34  83 %, 15  58 %, 41
	2 times the cost, 10/s      99 %, 9    25 %, 98   67 %, 14  33 %, 8   42 %, 55
	5 times the cost, 0.1/s     100 %, 7   67 %, 9    75 %, 2   83 %, 7   83 %, 38
	5 times the cost, 1/s       100 %, 5   67 %, 8    67 %, 3   100 %, 7  67 %, 40
	5 times the cost, 10/s      100 %, 5   92 %, 9    92 %, 2   92 %, 8   83 %, 40
	2 times the tokens, 0.1/s   99 %, 20   100 %, 8   100 %, 3  100 %, 8  100 %, 38
	2 times the tokens, 1/s     100 %, 9   100 %, 7   100 %, 2  100 %, 7  100 %, 38
	2 times the tokens, 10/s    100 %, 8   100 %, 8   100 %, 1  100 %, 7  100 %, 39
	5 times the tokens, 0.1/s   100 %, 7   100 %, 6   100 %, 2  100 %, 6  100 %, 37
	5 times the tokens, 1/s     100 %, 5   100 %, 6   100 %, 1  100 %, 6  100 %, 38
	5 times the tokens, 10/s    100 %, 5   100 %, 6   100 %, 1  100 %, 6  100 %, 38
	half the traffic, 0.1/s     63 %, 152  17 %, 121  0 %       8 %, 1    0 %
	half the traffic, 1/s       75 %, 144  25 %, 87   0 %       25 %, 10  0 %
	half the traffic, 10/s      73 %, 138  8 %, 30    0 %       8 %, 160  8 %, 116
	5 % tool errors, 0.1/s      71 %, 46   100 %, 29  58 %, 4   17 %, 41  67 %, 43
	5 % tool errors, 1/s        98 %, 15   100 %, 8   67 %, 2   92 %, 7   92 %, 32
	5 % tool errors, 10/s       100 %, 7   100 %, 6   83 %, 1   100 %, 6  100 %, 35
	5 % looping, 0.1/s          82 %, 50
	5 % looping, 1/s            100 %, 11
	5 % looping, 10/s           100 %, 4

No warning is critical: the package has no severities. A holiday is a warning in nearly every stage that has one, because it is less
than half the traffic; the others are 0.60 per stage and month. Minutes alone find half the traffic in 3 to 13 % of the cases. In the
third and fourth week, up to 0.2 % of the usual hours were below half of what is usual, and no sums of four hours. Seven alarms of sums, in
100 stages and these two weeks, were false.

Looping is 5 % of the calls, by conversations that repeat one every 20 seconds, thirty times. It is found by the rule AgentLoop, five
repetitions of a conversation in 15 minutes, and not by this package. Nothing else repeats in the simulation, so it does not tell how
often that rule is wrong.

The columns of the others are older than the loops, history and ends of answers in the simulation, and have other random numbers. With
invented traffic, whose tokens vary more, 20 stages had at most 1.5 warnings each in four weeks, on average (go test -slow without the
data).
*/
package usual
