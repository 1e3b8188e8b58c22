package awssim

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// principal is who makes a call.
type principal struct {
	AccessKey string
	ARN       string
	UserAgent string
}

// scope is what a signature says about itself:
// Credential=<access key>/<date>/<region>/<service>/aws4_request.
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

// RegisterCredentials says that calls made with accessKey are made by the role
// of that name. Without it an access key stands for a user of that name.
func (s *Simulator) RegisterCredentials(accessKey, roleName string) {
	s.locked(func(a *account) {
		a.credentials[accessKey] = a.arn("sts", "", fmt.Sprintf("assumed-role/%s/%s", roleName, accessKey))
	})
}

func (a *account) principalARN(accessKey string) string {
	if arn, ok := a.credentials[accessKey]; ok {
		return arn
	}
	return a.iamARN("user/" + accessKey)
}
