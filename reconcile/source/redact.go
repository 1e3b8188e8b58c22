package source

import (
	"errors"
	"net/url"
	"strings"

	"github.com/plumbline-dev/plumbline/redact"
)

// bare is a URL without user and password.
func bare(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User = nil
	return u.String()
}

// hideSecrets takes the secrets out of an error's message, by value, and cuts what a
// host may have added to it at length.
func hideSecrets(err error, raw string, c Credentials) error {
	const longest = 300
	secrets := c.Secrets()
	if u, perr := url.Parse(raw); perr == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, u.User.String())
		if _, set := u.User.Password(); !set && u.Scheme != "ssh" {
			secrets = append(secrets, u.User.Username()) // a token in place of a user
		}
	}
	message := strings.Join(strings.Fields(redact.Credentials(secrets...).Hide(err.Error())), " ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	return &redacted{message: message, err: err}
}

// redacted is an error whose message has lost every secret. It can still be
// asked with errors.Is, but what is below it is out of reach: that may hold a
// secret in its message.
type redacted struct {
	message string
	err     error
}

func (e *redacted) Error() string        { return e.message }
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }
