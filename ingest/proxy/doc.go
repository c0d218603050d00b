// Package proxy records the LLM calls of agents that cannot have a hook: they change base_url, and nothing else.
//
// It comes in as HTTP requests to /<upstream>/…, goes out as the same requests to that provider, and beside them as two
// events per call, through the capture, the queue and the sender of the Go hook.
//
//	agent ── POST /openai/v1/chat/completions ──> guard ──> labels ──> httputil.ReverseProxy
//	                                              who may     X-Llmtap-*        │
//	                                              ask what                 hook.Transport ──> https://api.openai.com/v1/…
//	                                                                            │ copies of bodies
//	                                                                       hook's queue ──> NATS JetStream
//
// # What a caller can rely on
//
// Bodies pass byte for byte, both ways, as they come: nothing waits for the end of a body, and a body of any size costs
// no more memory than the hook allows. Streams are flushed with each write. When the client goes, the call to the
// provider ends. Authorization and other keys pass through and are not captured. NATS being down is nothing a caller
// sees.
//
// What changes on the way: hop-by-hop and forwarding headers go, as with any proxy; X-Llmtap-* headers go; from
// Accept-Encoding go the encodings that nobody here can read (all but gzip).
//
// # What an agent sets
//
// Its base URL, with the provider's scheme and host replaced: https://api.openai.com/v1 becomes
// http://127.0.0.1:8089/openai/v1. Or any path and the header X-Llmtap-Upstream: openai. Labels are optional headers:
// X-Llmtap-Service, -Service-Version, -Environment, -Agent, -Stage, -Conversation, -Run, -User, -Attr-<key>; their values
// may be percent-encoded, because a fetch refuses Chinese in a header.
//
// # Why upstreams have names
//
// A proxy that takes a URL from its caller reaches whatever its host reaches: a cloud's metadata service, an admin page.
// So the caller names an upstream, the operator says where it is, dot segments are refused, redirects are handed to the
// caller and not followed.
//
// # Why loopback is no protection by itself
//
// A web page can make its visitor's browser ask 127.0.0.1, by a form or by a name that resolves to it. Without a token
// the proxy answers only requests that name a loopback host; with or without, none that a page of another origin made.
//
// # Why request and answer flow at the same time
//
// A provider may answer before it has read the request (a wrong key, a limit), and Go's server then closes the request's
// body under the transport that still sends it; the answer breaks off. It also happens to one call in about ten thousand
// whose answer comes at once. So the proxy asks for full duplex.
//
// # What NATS must allow
//
// Publishing to llmtap.v1.>, because a proxy serves many services, and reading _INBOX.llmtap-proxy.>.
//
// # What it costs
//
// Back to back on two cores, NATS storing in the same process, a call with 10 KB each way takes 0.15 ms longer than
// without a proxy, one with 100 KB 0.6 ms; through a bare httputil.ReverseProxy it is 0.07 and 0.18 ms. What is left is
// the copy, NATS and its disk. go test -run - -bench Proxy ./ingest/proxy prints the table.
package proxy
