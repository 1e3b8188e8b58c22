package githost

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// appINI is Gitea's configuration: loopback only, no network, nothing that starts slowly, queues in memory. Keys:
// https://docs.gitea.com/administration/config-cheat-sheet
var appINI = template.Must(template.New("app.ini").Parse(`APP_NAME = Git host of the sandbox
RUN_MODE = prod
WORK_PATH = {{.Dir}}

[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {{.HTTPPort}}
DOMAIN = 127.0.0.1
ROOT_URL = http://127.0.0.1:{{.HTTPPort}}/
LOCAL_ROOT_URL = http://127.0.0.1:{{.HTTPPort}}/
STATIC_ROOT_PATH = {{.Static}}
OFFLINE_MODE = true
LFS_START_SERVER = false
GRACEFUL_HAMMER_TIME = 1s
START_SSH_SERVER = true
SSH_DOMAIN = 127.0.0.1
SSH_PORT = {{.SSHPort}}
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = {{.SSHPort}}
SSH_SERVER_HOST_KEYS = {{.HostKey}}
BUILTIN_SSH_SERVER_USER = git

[database]
DB_TYPE = sqlite3
PATH = {{.Dir}}/data/gitea.db
SQLITE_JOURNAL_MODE = WAL
SQLITE_TIMEOUT = 20000

[repository]
ROOT = {{.Dir}}/data/repositories
DEFAULT_BRANCH = main
DISABLE_STARS = true

[security]
INSTALL_LOCK = true
SECRET_KEY = {{.Secret}}
PASSWORD_HASH_ALGO = pbkdf2$1000$50

[oauth2]
ENABLED = false
JWT_SECRET = {{.JWTSecret}}

[service]
DISABLE_REGISTRATION = true
REQUIRE_SIGNIN_VIEW = false
DEFAULT_KEEP_EMAIL_PRIVATE = true

[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5

[queue]
TYPE = channel

[cache]
ADAPTER = memory

[session]
PROVIDER = memory

[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false

[cron]
ENABLED = false

[actions]
ENABLED = true

[packages]
ENABLED = false

[mailer]
ENABLED = false

[picture]
DISABLE_GRAVATAR = true

[time]
DEFAULT_UI_LOCATION = UTC

[log]
MODE = console
LEVEL = Warn
`))

func (h *Host) writeConfig(httpPort, sshPort int) error {
	var text strings.Builder
	err := appINI.Execute(&text, map[string]any{
		"Dir":       h.options.Dir,
		"Static":    h.static,
		"HTTPPort":  httpPort,
		"SSHPort":   sshPort,
		"HostKey":   h.path(hostKey),
		"Secret":    secret(),
		"JWTSecret": secret(),
	})
	if err == nil {
		err = os.WriteFile(h.path("custom/conf/app.ini"), []byte(text.String()), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the Git host's configuration: %w", err)
	}
	return nil
}

// secret returns 32 random bytes in the format of Gitea's keys.
func secret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // according to its documentation it never returns an error

	return base64.RawURLEncoding.EncodeToString(raw)
}
