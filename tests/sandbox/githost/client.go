package githost

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// clientConfig keeps a client from asking anything and from minding who owns a folder.
const clientConfig = `[user]
	name = Sandbox
	email = sandbox@example.com
[init]
	defaultBranch = main
[safe]
	directory = *
[commit]
	gpgSign = false
`

// ClientEnv is the environment (KEY=value) of a git program that uses this host: a home of its own in dir, its own
// configuration, the host's key known and one SSH key to show. Without a key file SSH is left unconfigured.
func (h *Host) ClientEnv(dir, keyFile string) ([]string, error) {
	config := filepath.Join(dir, "gitconfig")
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(config, []byte(clientConfig), 0o600))
	if err != nil {
		return nil, fmt.Errorf("write a git client's configuration: %w", err)
	}
	env := []string{
		"HOME=" + dir,
		"GIT_CONFIG_GLOBAL=" + config,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"NO_PROXY=127.0.0.1,localhost",
	}
	if keyFile != "" {
		env = append(env, "GIT_SSH_COMMAND="+h.sshCommand(keyFile))
	}
	return env, nil
}

// sshCommand leaves out agents, the user's own keys and any configuration of the machine.
func (h *Host) sshCommand(keyFile string) string {
	return strings.Join([]string{
		"ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o IdentityAgent=none",
		"-o UserKnownHostsFile=" + quote(h.KnownHosts), "-i " + quote(keyFile),
	}, " ")
}

// quote makes one word of a path for the shell that git hands GIT_SSH_COMMAND to.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// As is the repository's HTTP URL with a user's name and token in it, for a git that is to push without asking.
func (r Repository) As(u User) string {
	address, err := url.Parse(r.HTTPURL)
	if err != nil { // it was made by CreateRepo
		return r.HTTPURL
	}
	address.User = url.UserPassword(u.Name, u.Token)
	return address.String()
}
