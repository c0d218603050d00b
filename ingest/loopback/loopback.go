// Package loopback recognizes loopback hosts. Listeners on other hosts require a token. A request whose Host header
// is not a loopback host may come from a web page whose domain resolves to 127.0.0.1 (DNS rebinding).
package loopback

import (
	"net"
	"strings"
)

// Is reports whether host, which may have a port or brackets, is a loopback name or address.
func Is(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
