// Package packaging checks what llmtap is installed with: the Helm chart and the manifests made from it, the compose file, the
// systemd unit, the Debian package, the packages for PyPI and npm, and the image.
//
//	deploy/helm ────────> Helm's engine ──> strict decoding into the types of Kubernetes ──> deploy/kubernetes
//	deploy/docker ──────> docker-compose config; the root file system of the Dockerfile, from Debian's packages ──> chroot, llmtap up
//	.goreleaser.yaml ───> nfpm ──> dpkg-deb ──> llmtap version
//	deploy/systemd ─────> systemd-analyze verify and security
//	release.sh ─────────> a module proxy of files ──> go get of the hook, go install of llmtap
//	packages.sh ────────> wheels and a registry of npm packages ──> pip install, npm install, npx ──> llmtap, an agent with the hook
//
// No container engine and no cluster is needed, so these are not tried: docker build, docker compose up, helm install, and
// goreleaser release.
package packaging

//go:generate go test -run TestManifests -update
