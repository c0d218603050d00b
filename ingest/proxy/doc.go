// Package proxy records the LLM calls of agents without a hook. Only the base URL of the agent changes.
//
// Input: HTTP requests to /<upstream>/…. Output: the same requests to the upstream, and two events per call, which
// the Go hook publishes.
//
//	agent ── POST /openai/v1/chat/completions ──> guard ──> labels ──> httputil.ReverseProxy
//	                                              token,      X-Llmtap-*        │
//	                                              upstream                 hook.Transport ──> https://api.openai.com/v1/…
//	                                                                            │ copies of bodies
//	                                                                       hook's queue ──> NATS JetStream
//
// # Guarantees
//
// Bodies are forwarded unchanged in both directions, without waiting for the end of a body. Memory is limited by the
// hook, whatever the size of a body. Streams are flushed after each write. When the client disconnects, the call to
// the provider is canceled; the rest of an error response is still read, for at most 5 seconds. Authorization and other
// headers with keys are forwarded but not captured. Callers are not affected if NATS is down.
//
// The proxy removes hop-by-hop headers, forwarding headers and X-Llmtap-* headers, and limits Accept-Encoding to
// gzip, the encoding that it decodes.
//
// # Agent settings
//
// In the base URL, replace the provider's scheme and host with the proxy and the name of the upstream:
// https://api.openai.com/v1 becomes http://127.0.0.1:8089/openai/v1. Alternatively, leave the path unchanged and send
// the header X-Llmtap-Upstream: openai. Labels are optional headers: X-Llmtap-Service, -Service-Version,
// -Environment, -Agent, -Stage, -Conversation, -Run, -User, -Attr-<key>. Values may be percent-encoded, because fetch
// rejects characters such as Chinese in a header.
//
// # Why upstreams have names
//
// A proxy that accepts a URL from its caller gives access to everything that its host can reach, such as the metadata
// service of a cloud or an admin page. Therefore the caller sends the name of an upstream, whose URL the operator
// configures. Dot segments are refused, and redirects are returned to the caller, not followed.
//
// # Why loopback alone does not protect
//
// A web page can make a browser send requests to 127.0.0.1, with a form or with a domain that resolves to 127.0.0.1.
// Without a token, the proxy accepts only requests whose Host header is a loopback host. With or without a token, it
// refuses requests from pages of other origins.
//
// # Why request and response flow concurrently
//
// A provider may respond before it has read the request, for example because of a wrong key or a limit. Go's server
// then closes the request body while the transport is still sending it, and the response is cut off. Even for small
// bodies this happens to about one in ten thousand calls with an immediate response. Therefore the proxy enables full
// duplex.
//
// # NATS permissions
//
// The proxy must be allowed to publish to llmtap.v1.>, because it serves many services, and to subscribe to
// _INBOX.llmtap-proxy.>.
//
// # Cost
//
// With calls one after another on two cores and NATS in the same process, the proxy adds 0.15 ms to a call with 10 KB
// each way and 0.6 ms to a call with 100 KB; a plain httputil.ReverseProxy adds 0.07 and 0.18 ms. The difference is
// due to copying, NATS and its disk. go test -run - -bench Proxy ./ingest/proxy prints the table.
package proxy
