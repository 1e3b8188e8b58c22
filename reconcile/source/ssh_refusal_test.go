package source

import (
	"errors"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

func TestRefusedToServe(t *testing.T) {
	cases := map[string]struct {
		said string
		is   error
	}{
		"github":                           {"ERROR: Repository not found. fatal: Could not read from remote repository.", transport.ErrRepositoryNotFound},
		"gitlab":                           {"ERROR: The project you were looking for could not be found or you don't have permission to view it.", transport.ErrRepositoryNotFound},
		"git":                              {"fatal: '/x' does not appear to be a git repository", transport.ErrRepositoryNotFound},
		"gitea":                            {"Gitea: Unauthorized User: 2 with Key: 3 is not authorized to read acme/fleet.", transport.ErrAuthorizationFailed},
		"github, a push with a deploy key": {"ERROR: The key you are authenticating with has been marked as read only. fatal: Could not read from remote repository.", transport.ErrAuthorizationFailed},
		"gitlab, a push with a deploy key": {"ERROR: This deploy key does not have write access to this project.", transport.ErrAuthorizationFailed},
		"gitea, a push with a deploy key":  {"Gitea: Unauthorized Deploy Key: 1:x is not authorized to write to acme/fleet.", transport.ErrAuthorizationFailed},
		"broken":                           {"Gitea: Internal Server Connection Error", nil},
		"silent":                           {"", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := refusedToServe(c.said)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want %v", err, c.is)
			}
			if c.is == nil && (errors.Is(err, transport.ErrRepositoryNotFound) || errors.Is(err, transport.ErrAuthorizationFailed)) {
				t.Errorf("error %v for %q", err, c.said)
			}
		})
	}
}
