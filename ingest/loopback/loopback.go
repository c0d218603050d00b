// Package loopback recognises loopback hosts. Listeners on other hosts require a token, and a request with another Host header
// may come from a web page whose name resolves to 127.0.0.1.
package loopback

import (
	"net"
	"strings"
)

// Is reports whether host, with or without a port or brackets, is a loopback name or address.
func Is(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
