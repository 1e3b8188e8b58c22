package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Look implements Pulls.
func (b *bed) Look(names []types.NamespacedName) {
	for _, name := range names {
		b.looked = append(b.looked, name.Name)
	}
}

// TestPullRequestsAreLookedAt: an event of a pull request, and a push to any branch, enqueue the listing for NodeSyncs
// that follow pull requests of the repository, by their source or by report.url.
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

// TestPullRequestsOfEachHost are listed, by any name of the repository.
func TestPullRequestsOfEachHost(t *testing.T) {
	for name, c := range map[string]struct{ host, event, file, provider, url string }{
		"bitbucket":   {"bitbucket", "pullrequest:updated", "bitbucket/pull.json", "bitbucket", "https://bitbucket.org/acme/fleet"},
		"data center": {"bitbucketserver", "pr:from_ref_updated", "bitbucketserver/pull.json", "bitbucketserver", "https://bitbucket.example.com/projects/FLT/repos/fleet"},
		"azure":       {"azuredevops", "", "azuredevops/pull.json", "azuredevops", "https://acme.visualstudio.com/infra%20eu/_git/fleet"},
	} {
		asks := following("asks", "ssh://git@mirror.example.com/x/y.git", v1alpha1.GitRef{})
		asks.Spec.Report = []v1alpha1.Report{{Provider: c.provider, URL: c.url, PullRequests: &v1alpha1.PullRequests{}}}
		b := newBed(t, tokenSecret(theToken), asks)
		body := payloadOf(t, c.file)
		if status, a := b.post(delivery(c.host, c.event, body, theToken), body); status != 202 || a.Woken != 1 {
			t.Errorf("%s: answer %d %+v", name, status, a)
		}
		if diff := cmp.Diff([]string{"asks"}, b.looked); diff != "" {
			t.Errorf("%s: looked at (-want +got):\n%s", name, diff)
		}
	}
}
