// Package jsonscan finds the ends of JSON values in place and decodes their text. It is used by shape, which rewrites
// bodies, and by facts, which reads them.
//
// Functions validate only what they need: a string ends at its quote, and a container ends at its bracket. No
// function recurses, so deep nesting costs nothing.
//
// # Why strings are searched for quotes
//
// Code in strings has a backslash on every line, and a search that stops at each backslash is half as fast. StringEnd
// searches only for quotes and counts the backslashes before a quote. It examines the first 16 bytes as two words,
// because most strings are short and a call of IndexByte would cost more.
//
// # Why there are two walkers
//
// Package facts skips most values and must not allocate; package shape writes every byte that it reads and is strict.
// With a common walker, facts would need a call per value.
package jsonscan
