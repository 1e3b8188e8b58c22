package upgrade

import (
	"testing"
	"time"
)

// TestLoggedError is the newest error about exactly this object, on one line, without the ID of a request.
func TestLoggedError(t *testing.T) {
	const log = `plain text about "web"
{"level":"ERROR","time":"2026-03-01T12:00:01Z","controllerKind":"EC2NodeClass","name":"web","error":"first"}
{"level":"ERROR","time":"2026-03-01T12:00:02Z","controllerKind":"EC2NodeClass","name":"web","error":"invalid UserData\n  toml: expected character ="}
{"level":"ERROR","time":"2026-03-01T12:00:02Z","controllerKind":"EC2NodeClass","name":"iam","error":"operation error IAM: GetRole, https response error StatusCode: 403, RequestID: a-1, api error AccessDenied: no. Encoded authorization failure message: x8s"}
{"level":"ERROR","time":"2026-03-01T12:00:03Z","controllerKind":"NodePool","name":"web","error":"of a pool"}
{"level":"ERROR","time":"2026-03-01T12:00:04Z","controllerKind":"EC2NodeClass","name":"web2","error":"of another"}
{"level":"INFO","time":"2026-03-01T12:00:05Z","controllerKind":"EC2NodeClass","name":"web","message":"no error"}
`
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		class string
		since time.Duration
		want  string
	}{
		"the newest":       {"web", 0, "invalid UserData toml: expected character ="},
		"all are older":    {"web", 3 * time.Second, ""},
		"of no such class": {"other", 0, ""},
		"of AWS":           {"iam", 0, "operation error IAM: GetRole, api error AccessDenied: no."},
	} {
		if got := LoggedError(log, "EC2NodeClass", c.class, start.Add(c.since)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
