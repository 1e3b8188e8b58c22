package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// adminName is also the owner of what the sandbox itself creates. ("admin" is a reserved name.)
const adminName = "sandbox"

// User is an account with a token that has all of the account's permissions.
type User struct {
	Name, Password, Token string
}

// createAdmin uses the program itself, because no user of the API exists yet.
func (h *Host) createAdmin(ctx context.Context) error {
	h.Admin = User{Name: adminName, Password: secret()}
	cmd := h.command(ctx, "admin", "user", "create", "--admin", "--must-change-password=false",
		"--username", h.Admin.Name, "--password", h.Admin.Password, "--email", h.Admin.Name+"@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create the Git host's administrator: %w: %s", err, out)
	}
	var err error
	h.Admin.Token, err = h.Token(ctx, h.Admin, "sandbox", "all")
	return err
}

// CreateUser creates an account that may own repositories, with a token with all of its permissions.
func (h *Host) CreateUser(ctx context.Context, name string) (User, error) {
	u := User{Name: name, Password: secret()}
	err := h.call(ctx, h.Admin, http.MethodPost, "/admin/users", map[string]any{
		"username":             u.Name,
		"password":             u.Password,
		"email":                u.Name + "@example.com",
		"must_change_password": false,
	}, nil)
	if err != nil {
		return User{}, fmt.Errorf("create Git user %s: %w", name, err)
	}
	u.Token, err = h.Token(ctx, u, "sandbox", "all")
	return u, err
}

// Token creates another token of a user, for some of Gitea's scopes, such as "write:repository". The name is unique per
// user.
func (h *Host) Token(ctx context.Context, u User, name string, scopes ...string) (string, error) {
	var made struct {
		Token string `json:"sha1"`
	}
	byPassword := User{Name: u.Name, Password: u.Password}
	err := h.call(ctx, byPassword, http.MethodPost, "/users/"+url.PathEscape(u.Name)+"/tokens",
		map[string]any{"name": name, "scopes": scopes}, &made)
	if err != nil {
		return "", fmt.Errorf("make token %s of Git user %s: %w", name, u.Name, err)
	}
	return made.Token, nil
}

// AddUserKey allows a key to act as a user over SSH.
func (h *Host) AddUserKey(ctx context.Context, u User, k Key) error {
	err := h.call(ctx, u, http.MethodPost, "/user/keys", map[string]any{"title": k.Public, "key": k.Public}, nil)
	if err != nil {
		return fmt.Errorf("add an SSH key of Git user %s: %w", u.Name, err)
	}
	return nil
}
