package config

import (
	"net/url"
	"strings"
)

const mask = "********"

// MaskURL returns s, URLs separated by commas, with passwords and tokens masked.
func MaskURL(s string) string {
	urls := strings.Split(s, ",")
	for i, raw := range urls {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			return mask
		}
		options := u.RawQuery
		u.RawQuery, u.Fragment = "", ""
		user := u.User
		u.User = nil
		urls[i] = u.String()
		if user != nil {
			name := mask + "@" // without a password, NATS takes the name as a token
			if _, ok := user.Password(); ok {
				name = user.Username() + ":" + name
			}
			urls[i] = strings.Replace(urls[i], "://", "://"+name, 1)
		}
		for j, option := range strings.Split(options, "&") {
			if name, _, ok := strings.Cut(option, "="); ok && strings.Contains(strings.ToLower(name), "password") {
				option = name + "=" + mask
			}
			if options != "" {
				urls[i] += string("?&"[min(j, 1)]) + option
			}
		}
	}
	return strings.Join(urls, ",")
}

// masked returns s as the secret tag of its field allows it to be shown.
func masked(s, secret string) string {
	switch {
	case s == "" || secret == "":
		return s
	case secret == "url":
		return MaskURL(s)
	}
	return mask
}
