#!/usr/bin/env bash
# Commits and tags a release: the version of our modules in every go.mod and go.work and of the hooks for Python and Node.js, and a
# tag for each module that others can get. Push the commit and the tags together, as it prints; then run goreleaser release and
# packages.sh.
set -euo pipefail
version=${1:-}
if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$ ]]; then
  echo "usage: deploy/packaging/release.sh v0.2.0" >&2
  exit 2
fi
cd "$(git rev-parse --show-toplevel)"
git ls-files '*go.mod' '*go.work' | xargs sed -i -E "s#(github.com/llmtap/llmtap(/ingest/sdk/go)?) v[0-9][^ ]*#\1 $version#"
sed -i -E "s#^((export const )?VERSION = )\"[^\"]*\"#\1\"${version#v}\"#" ingest/sdk/python/llmtap/_hook.py ingest/sdk/typescript/src/hook.ts
sed -i -E "1,9s#^( +\"version\": )\"[^\"]*\"#\1\"${version#v}\"#" ingest/sdk/typescript/package.json ingest/sdk/typescript/package-lock.json
git commit --quiet --allow-empty --all --message "release: $version"
git tag "$version"
git tag "ingest/sdk/go/$version" # Go names the tag of a nested module by its folder
echo "git push --atomic origin HEAD $version ingest/sdk/go/$version"
