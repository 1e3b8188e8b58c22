package githost

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// clientConfig keeps a client from prompting and from checking who owns a folder.
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

// ClientEnv returns the environment (KEY=value) of a git program that uses this host: with its own home in dir, its own
// configuration, the host's key and one SSH key. Without a key file SSH is not configured.
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

// sshCommand excludes agents, the user's own keys and any configuration of the machine.
func (h *Host) sshCommand(keyFile string) string {
	return strings.Join([]string{
		"ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o IdentityAgent=none",
		"-o UserKnownHostsFile=" + quote(h.KnownHosts), "-i " + quote(keyFile),
	}, " ")
}

// quote quotes a path for the shell to which git passes GIT_SSH_COMMAND.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// As returns the repository's HTTP URL with a user's name and token, so that git can push without a prompt.
func (r Repository) As(u User) string {
	address, err := url.Parse(r.HTTPURL)
	if err != nil { // CreateRepo made it
		return r.HTTPURL
	}
	address.User = url.UserPassword(u.Name, u.Token)
	return address.String()
}
