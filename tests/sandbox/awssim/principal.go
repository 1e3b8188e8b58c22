package awssim

import (
	"net/http"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// principal is the caller of a call.
type principal struct {
	AccessKey string
	ARN       string
	UserAgent string
	expired   bool // its credentials have expired
}

// scope is the content of a signature's credential: Credential=<access key>/<date>/<region>/<service>/aws4_request.
type scope struct {
	accessKey, region, service string
}

func parseScope(r *http.Request) (scope, error) {
	authorization := r.Header.Get("Authorization")
	_, credential, ok := strings.Cut(authorization, "Credential=")
	if !ok {
		return scope{}, wire.Errorf("MissingAuthenticationToken", "the request has no Authorization header with a Credential; sign it with any access key").WithStatus(http.StatusForbidden)
	}
	credential, _, _ = strings.Cut(credential, ",")
	parts := strings.Split(credential, "/")
	if len(parts) != 5 {
		return scope{}, wire.Errorf("IncompleteSignature", "Credential %q is not <access key>/<date>/<region>/<service>/aws4_request", credential)
	}
	return scope{accessKey: parts[0], region: parts[2], service: parts[3]}, nil
}

// credential is the session of a role that an access key belongs to.
type credential struct {
	role, session string
	tags          map[string]string
	expires       time.Time // zero: never
}

// RegisterCredentials makes accessKey an access key of the role of that name, with what its policies allow. Otherwise
// an access key belongs to a user of that name, who may do everything.
func (s *Simulator) RegisterCredentials(accessKey, roleName string) {
	s.locked(func(a *account) { a.credentials[accessKey] = credential{role: roleName, session: accessKey} })
}

// identify determines the caller.
func (a *account) identify(p *principal) {
	c, ok := a.credentials[p.AccessKey]
	if !ok {
		p.ARN = a.iamARN("user/" + p.AccessKey)
		return
	}
	p.ARN = a.sessionARN(c.role, c.session)
	p.expired = !c.expires.IsZero() && !a.now.Before(c.expires)
}
