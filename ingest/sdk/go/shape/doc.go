// Package shape removes content from bodies but retains the message protocol. It implements capture mode "shape".
//
// It converts the body of a request or an answer, unary or streamed, to a body of the same structure:
//
//	{"messages":[{"role":"user","content":"read config.py"},
//	             {"role":"assistant","tool_calls":[{"id":"call_1","function":{"name":"read","arguments":"{\"path\":\"config.py\"}"}}]}]}
//	                                   │ shape_paths.json: the protocol positions of each dialect
//	                                   v
//	{"messages":[{"role":"user","content":"~14:0b9c…"},
//	             {"role":"assistant","tool_calls":[{"id":"call_1","function":{"name":"read","arguments":"{\"k5d0e…\":\"~9:93aa…\"}"}}]}]}
//
// Only values at protocol positions are retained: roles, types, ids, function names, parameters, finish reasons,
// usage. The format member of shape_paths.json specifies the replacement of all other values; the hooks in other
// languages read the same file. A body of an unknown dialect is replaced by its length and hash.
//
// # Why hashes are keyed and stable
//
// Equal texts have equal hashes under one key, so a comparison shows whether an agent sent back what the model wrote.
// The hash is keyed because a short text could be guessed from an unkeyed hash. Texts of different processes can be
// compared if they share LLMTAP_SHAPE_KEY.
//
// # Why a stream retains its events but not its fragments
//
// The text of an answer arrives in fragments, but the next request contains the whole text. So the fragments of a
// text are collected, and the shape of the whole text replaces the first fragment. Assembling the shaped stream then
// results in the shape of the unary answer. The same applies to the arguments of a call, whose fragments are not
// JSON.
//
// # Cost
//
// A chat request of 100 KB takes 0.2 ms (450 MB/s on one core of a busy machine), mostly for decoding escapes and
// SHA-256. Keys and short words are cached with their hashes, because the schemas of tools are in every request.
// Recorded requests shrink to an eighth on average and grow by a fifth at most; streams, which retain their events,
// shrink to four fifths (go test -run - -bench . ./ingest/sdk/go/shape).
package shape
