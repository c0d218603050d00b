package loopback

import "testing"

func TestIs(t *testing.T) {
	for _, host := range []string{"localhost", "LOCALHOST:80", "127.0.0.1", "127.8.9.10:80", "::1", "[::1]", "[::1]:80", "::ffff:127.0.0.1"} {
		if !Is(host) {
			t.Errorf("%s is loopback", host)
		}
	}
	for _, host := range []string{"", ":80", "0.0.0.0", "10.0.0.7:80", "::", "localhost.example.com", "127.0.0.1.example.com", "[::2]:80"} {
		if Is(host) {
			t.Errorf("%s is not loopback", host)
		}
	}
}
