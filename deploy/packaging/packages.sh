#!/usr/bin/env bash
# Packs the release that is checked out into dist/pypi and dist/npm, and prints how to publish it. The hooks come with the collector on
# the platforms below, whose binaries are in dist from goreleaser release, and alone on all others. Requires npm, and build and wheel
# for python3.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
version=$(git describe --tags --exact-match --match 'v*')
version=${version#v}
pypi=$PWD/dist/pypi npm=$PWD/dist/npm work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$pypi" "$npm"
mkdir -p "$pypi" "$npm"
git archive HEAD ingest/sdk/python ingest/sdk/typescript | tar x -C "$work" --strip-components=2

python3 -m build --outdir "$pypi" "$work/python"
python3 -m wheel unpack --dest "$work/wheel" "$pypi"/*.whl
wheel=$(echo "$work"/wheel/*)
tags=$(echo "$wheel"/*.dist-info/WHEEL)
dependencies=()
while read -r os arch node_os node_arch wheel_platforms; do
  binary=$(echo "dist/llmtap_${os}_$arch"*/llmtap)
  install -D "$binary" "$wheel/$(basename "$wheel").data/scripts/llmtap"
  sed -i '/^Tag: /d' "$tags"
  printf 'Tag: py3-none-%s\n' ${wheel_platforms//,/ } >>"$tags"
  python3 -m wheel pack --dest-dir "$pypi" "$wheel"

  libc=
  [[ $os != linux ]] || libc=' "libc": ["glibc"],'
  name=@llmtap/$node_os-$node_arch
  install -D "$binary" "$work/$name/bin/llmtap"
  cat >"$work/$name/package.json" <<END
{
  "name": "$name",
  "version": "$version",
  "description": "The collector of llmtap for $os on $arch: install llmtap",
  "license": "Apache-2.0",
  "repository": "github:llmtap/llmtap",
  "os": ["$node_os"],
  "cpu": ["$node_arch"],$libc
  "preferUnplugged": true
}
END
  npm pack --silent --pack-destination "$npm" "$work/$name"
  dependencies+=("optionalDependencies.$name=$version")
done <<'END'
linux  amd64 linux  x64   manylinux_2_17_x86_64,manylinux2014_x86_64
linux  arm64 linux  arm64 manylinux_2_17_aarch64,manylinux2014_aarch64
darwin amd64 darwin x64   macosx_12_0_x86_64
darwin arm64 darwin arm64 macosx_12_0_arm64
END

# Added here, because in a clone there is neither: npm would look for packages that no release has published.
cd "$work/typescript"
npm ci --silent --no-audit --no-fund
npm pkg set bin.llmtap=dist/bin.js "${dependencies[@]}"
npm pack --silent --pack-destination "$npm"

tag=latest
[[ $version != *-* ]] || tag=next
echo "twine upload dist/pypi/*"
echo "for p in dist/npm/llmtap-{linux,darwin}-*.tgz dist/npm/llmtap-$version.tgz; do npm publish --access public --tag $tag \$p; done"
