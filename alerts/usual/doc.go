// Package usual knows what is usual of a measure of a series of calls, and decides whether the present is unusual.
package usual
