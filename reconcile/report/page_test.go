package report_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func TestPage(t *testing.T) {
	cases := map[string]struct{ provider, repository, folder, want string }{
		"github":          {"github", "https://github.com/acme/fleet.git", "./clusters/prod", "https://github.com/acme/fleet/tree/c0/clusters/prod"},
		"gitlab":          {"gitlab", "https://gitlab.com/acme/infra/fleet", "./", "https://gitlab.com/acme/infra/fleet/-/tree/c0"},
		"gitea":           {"gitea", "http://git.example.com:3000/sub/acme/fleet/", "prod eu", "http://git.example.com:3000/sub/acme/fleet/src/commit/c0/prod%20eu"},
		"forgejo":         {"forgejo", "https://codeberg.org/acme/fleet", "clusters", "https://codeberg.org/acme/fleet/src/commit/c0/clusters"},
		"bitbucket":       {"bitbucket", "https://bitbucket.org/acme/fleet.git", "./clusters/prod", "https://bitbucket.org/acme/fleet/src/c0/clusters/prod"},
		"data center":     {"bitbucketserver", "https://git.example.com/bb/scm/~me/fleet.git", "prod eu", "https://git.example.com/bb/projects/~me/repos/fleet/browse/prod%20eu?at=c0"},
		"azure":           {"azuredevops", "https://dev.azure.com/acme/infra%20eu/_git/fleet", "./clusters/prod", "https://dev.azure.com/acme/infra%20eu/_git/fleet?path=%2Fclusters%2Fprod&version=GCc0"},
		"generic":         {"generic", "https://hooks.example.com/acme/fleet", ".", ""},
		"a password":      {"gitea", "https://u:p@git.example.com/acme/fleet", ".", "https://git.example.com/acme/fleet/src/commit/c0"},
		"another kind":    {"sourcehut", "https://git.example.com/acme/fleet", ".", ""},
		"ssh":             {"gitea", "ssh://git@git.example.com/acme/fleet", ".", ""},
		"too long":        {"gitea", "https://git.example.com/acme/fleet", strings.Repeat("a", 250), ""},
		"out of the tree": {"gitea", "https://git.example.com/acme/fleet", "../../x", ""},
	}
	for name, c := range cases {
		if got := report.Page(c.provider, c.repository, "c0", c.folder); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"https://u:p@git.example.com/acme/fleet.git": "https://git.example.com/acme/fleet.git",
		"https://git.example.com/acme/fleet":         "https://git.example.com/acme/fleet",
		"https://u:p@%zz":                            "",
	} {
		if got := report.Clean(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
