// Package libraries runs the tests of HTTP clients and LLM SDKs, as their authors publish them, without a hook and with one that records
// every host: whatever passes without it must pass with it. It contains only tests, which need a package registry and a flag.
package libraries
