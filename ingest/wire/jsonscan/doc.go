// Package jsonscan finds the ends of JSON values in place and decodes their text. Shape, which rewrites bodies, and facts,
// which reads them, walk with it.
//
// Nothing is validated beyond what a function needs: a string ends at its quote, a container at its bracket. Nothing
// recurses, so depth costs nothing.
//
// # Why strings are searched for quotes
//
// Code has a backslash on every line, and a search that stops at each is half as fast. StringEnd looks for quotes only and
// counts the backslashes before one. It searches the first 16 bytes by words, because most strings are short and a call
// of IndexByte costs more than they do.
//
// # Why the walkers are two
//
// Facts skips most values and must not allocate; shape writes every byte that it reads and is strict. A walker for both
// would cost facts a call per value.
package jsonscan
