package status

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhereStatusesLink shows the order: the NodeSync's targetURL, the page, the folder of the commit.
func TestWhereStatusesLink(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Name, sync.Spec.Path = "prod", "./nodes"
	const repository, commit = "https://github.com/acme/fleet", "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct{ page, target, want string }{
		"the host":     {"", "", repository + "/tree/" + commit + "/nodes"},
		"the page":     {"https://nodes.example.com", "", "https://nodes.example.com/nodesyncs/prod"},
		"with a slash": {"https://nodes.example.com/", "", "https://nodes.example.com/nodesyncs/prod"},
		"the NodeSync": {"https://nodes.example.com", "https://grafana.example.com", "https://grafana.example.com"},
	} {
		s := &Step{Sync: sync, Tools: Tools{PageURL: c.page}}
		if got := s.linkOf(v1alpha1.Report{Provider: "github", TargetURL: c.target}, repository, commit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
