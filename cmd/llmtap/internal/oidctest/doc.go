// Package oidctest tests log-in with OpenID Connect against the provider of github.com/zitadel/oidc, and roles on all routes.
package oidctest
