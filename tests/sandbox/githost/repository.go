package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Repository contains the URLs of a repository.
type Repository struct {
	Owner, Name string
	// HTTPURL requires a user and password (or token) to push, and to read a private one.
	HTTPURL string
	// SSHURL has the form ssh://git@host:port/owner/name.git.
	SSHURL string
}

func (r Repository) path() string {
	return "/repos/" + url.PathEscape(r.Owner) + "/" + url.PathEscape(r.Name)
}

// CreateRepo creates an empty private repository, whose default branch will be main.
func (h *Host) CreateRepo(ctx context.Context, owner, name string) (Repository, error) {
	r := Repository{
		Owner:   owner,
		Name:    name,
		HTTPURL: h.URL + "/" + owner + "/" + name + ".git",
		SSHURL:  "ssh://git@" + h.SSHAddress + "/" + owner + "/" + name + ".git",
	}
	err := h.call(ctx, h.Admin, http.MethodPost, "/admin/users/"+url.PathEscape(owner)+"/repos",
		map[string]any{"name": name, "private": true, "default_branch": "main"}, nil)
	if err != nil {
		return Repository{}, fmt.Errorf("create repository %s/%s: %w", owner, name, err)
	}
	return r, nil
}

// AddDeployKey allows a key to read one repository over SSH, and to push to it if writable.
func (h *Host) AddDeployKey(ctx context.Context, r Repository, k Key, writable bool) error {
	err := h.call(ctx, h.Admin, http.MethodPost, r.path()+"/keys",
		map[string]any{"title": k.PrivateFile, "key": k.Public, "read_only": !writable}, nil)
	if err != nil {
		return fmt.Errorf("add a deploy key to %s/%s: %w", r.Owner, r.Name, err)
	}
	return nil
}

// AddWebhook sends pushes to a URL on this machine, signed with the secret (header X-Gitea-Signature).
func (h *Host) AddWebhook(ctx context.Context, r Repository, target, secret string) error {
	err := h.call(ctx, h.Admin, http.MethodPost, r.path()+"/hooks", map[string]any{
		"type":   "gitea",
		"active": true,
		"events": []string{"push"},
		"config": map[string]string{"url": target, "content_type": "json", "secret": secret},
	}, nil)
	if err != nil {
		return fmt.Errorf("add webhook %s to %s/%s: %w", target, r.Owner, r.Name, err)
	}
	return nil
}
