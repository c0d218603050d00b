#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers /usr/lib/sysusers.d/llmtap.conf
elif ! getent passwd llmtap >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/llmtap --shell /usr/sbin/nologin llmtap
fi
chgrp llmtap /etc/llmtap /etc/llmtap/llmtap.yaml
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart llmtap.service # after an upgrade
fi
