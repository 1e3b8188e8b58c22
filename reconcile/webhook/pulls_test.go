package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Look is that of Pulls.
func (b *bed) Look(names []types.NamespacedName) {
	for _, name := range names {
		b.looked = append(b.looked, name.Name)
	}
}

// TestPullRequestsAreLookedAt: an event of one, and a push to any branch, have them listed by who
// follows those of the repository, by its source or by report.url.
func TestPullRequestsAreLookedAt(t *testing.T) {
	const hub = "https://github.com/codertocat/hello-world"
	asks := following("asks", hub, v1alpha1.GitRef{Branch: "another"})
	asks.Spec.Report = []v1alpha1.Report{{Provider: "github", PullRequests: &v1alpha1.PullRequests{}}}
	mirrored := following("mirrored", "ssh://git@mirror.example.com/fleet.git", v1alpha1.GitRef{})
	mirrored.Spec.Report = []v1alpha1.Report{{Provider: "github", URL: hub, PullRequests: &v1alpha1.PullRequests{}}}
	other := following("other", "https://github.com/codertocat/other", v1alpha1.GitRef{})
	other.Spec.Report = asks.Spec.Report
	silent := following("silent", hub, v1alpha1.GitRef{Branch: "another"})
	for _, event := range []string{"pull_request", "push"} {
		b := newBed(t, tokenSecret(theToken), asks, mirrored, other, silent)
		body := payloadOf(t, "github/push.json")
		if status, a := b.post(delivery("github", event, body, theToken), body); status != 202 {
			t.Errorf("%s: answer %d %+v", event, status, a)
		}
		if diff := cmp.Diff([]string{"asks", "mirrored"}, b.looked); diff != "" {
			t.Errorf("%s: looked at (-want +got):\n%s", event, diff)
		}
		if len(b.woken) != 0 {
			t.Errorf("%s: woken %v", event, b.woken)
		}
	}
}
