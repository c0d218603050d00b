// Package proxy records the LLM calls of agents without a hook. The agent changes its base URL and nothing else.
//
// Input: HTTP requests to /<upstream>/…. Output: the same requests to the upstream, and two events per call, published
// through the Go hook.
//
//	agent ── POST /openai/v1/chat/completions ──> guard ──> labels ──> httputil.ReverseProxy
//	                                              token,      X-Llmtap-*        │
//	                                              upstream                 hook.Transport ──> https://api.openai.com/v1/…
//	                                                                            │ copies of bodies
//	                                                                       hook's queue ──> NATS JetStream
//
// # Guarantees
//
// Bodies pass byte for byte in both directions, without waiting for the end of a body; a body of any size uses no more
// memory than the hook allows. Streams are flushed after each write. When the client disconnects, the call to the provider
// ends. Authorization and other keys pass through and are not captured. Callers do not notice when NATS is down.
//
// The proxy removes hop-by-hop headers, forwarding headers and X-Llmtap-* headers, and limits Accept-Encoding to the encoding
// that it decodes, gzip.
//
// # Agent settings
//
// Set the base URL, with the proxy in place of the provider's scheme and host: https://api.openai.com/v1 becomes
// http://127.0.0.1:8089/openai/v1. Or send any path and the header X-Llmtap-Upstream: openai. Labels are optional headers:
// X-Llmtap-Service, -Service-Version, -Environment, -Agent, -Stage, -Conversation, -Run, -User, -Attr-<key>. Values may be
// percent-encoded, because fetch rejects Chinese in a header.
//
// # Why upstreams have names
//
// A proxy that accepts a URL from its caller reaches everything that its host reaches: the metadata service of a cloud, an
// admin page. So the caller names an upstream, the operator configures its URL, dot segments are refused, and redirects are
// returned to the caller, not followed.
//
// # Why loopback alone is no protection
//
// A web page can make a browser send requests to 127.0.0.1, with a form or with a name that resolves to it. Without a token
// the proxy accepts only requests whose Host header is a loopback name; with or without one it refuses requests from pages of
// other origins.
//
// # Why request and response flow concurrently
//
// A provider may respond before it has read the request (a wrong key, a limit). Go's server then closes the request body
// while the transport still sends it, and the response breaks off. The same happens to one in about ten thousand calls with
// an immediate response. So the proxy enables full duplex.
//
// # NATS permissions
//
// Publish llmtap.v1.>, because a proxy serves many services, and subscribe to _INBOX.llmtap-proxy.>.
//
// # Cost
//
// Back to back on two cores, with NATS storing in the same process, the proxy adds 0.15 ms to a call with 10 KB each way and
// 0.6 ms to one with 100 KB; a bare httputil.ReverseProxy adds 0.07 and 0.18 ms. The difference is the copy, NATS and its
// disk. go test -run - -bench Proxy ./ingest/proxy prints the table.
package proxy
