package webhook

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// payloadOf is an event as a host's documentation shows it, shortened.
func payloadOf(t testing.TB, file string) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestParsePush(t *testing.T) {
	of := func(repository repository, refs ...string) push {
		return push{repositories: repositories(repository), refs: refs}
	}
	server := push{repositories: repositories("bitbucket.example.com/flt/fleet", "bitbucket.example.com/scm/flt/fleet", "bitbucket.example.com/projects/flt/repos/fleet"), refs: []string{"refs/heads/main"}}
	cases := map[string]push{
		"github/push.json":          of("github.com/codertocat/hello-world", "refs/heads/main"),
		"github/tag.json":           of("github.com/codertocat/hello-world", "refs/tags/v1.2.0"),
		"gitlab/push.json":          of("example.com/mike/diaspora", "refs/heads/main"),
		"gitlab/tag.json":           of("example.com/jsmith/example", "refs/tags/v1.0.0"),
		"gitea/push.json":           of("localhost/gitea/webhooks", "refs/heads/develop"),
		"forgejo/push.json":         of("forge.example.org/team/webhooks", "refs/heads/develop"),
		"bitbucket/push.json":       {repositories: repositories("bitbucket.org/acme/fleet", "api.bitbucket.org/2.0/repositories/acme/fleet"), refs: []string{"refs/heads/main", "refs/heads/dev", "refs/tags/v1.2.0"}},
		"bitbucketserver/push.json": server,
		"bitbucketserver/tag.json":  {anywhere: []string{"/flt/fleet", "/projects/flt/repos/fleet"}, refs: []string{"refs/tags/v1.2.0"}},
		"azuredevops/push.json":     of("dev.azure.com/acme/infra eu/_git/fleet", "refs/heads/main"),
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			host, _, _ := strings.Cut(file, "/")
			got, err := senderNamed(t, host).readPush(payloadOf(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(push{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func repositories(all ...repository) []repository { return all }

func senderNamed(t testing.TB, name string) sender {
	t.Helper()
	all := senders()
	i := slices.IndexFunc(all, func(s sender) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("nobody is called %s", name)
	}
	return all[i]
}

// TestARepositoryByAllItsNames: of a host that names its URLs, and of one that names none.
func TestARepositoryByAllItsNames(t *testing.T) {
	for file, urls := range map[string][2][]string{
		"bitbucketserver/push.json": {
			{"https://bitbucket.example.com/scm/FLT/fleet.git", "ssh://git@bitbucket.example.com:7999/flt/fleet.git", "https://bitbucket.example.com/projects/FLT/repos/fleet"},
			{"https://other.example.com/scm/flt/fleet.git", "https://bitbucket.example.com/scm/flt/fleet2.git"},
		},
		"bitbucketserver/tag.json": {
			{"https://bitbucket.example.com/scm/FLT/fleet.git", "ssh://git@other.example.com:7999/flt/fleet.git", "https://bitbucket.example.com/below/projects/FLT/repos/fleet"},
			{"https://bitbucket.example.com/scm/flt/fleet2.git", "https://bitbucket.example.com/scm/xflt/fleet.git"},
		},
		"azuredevops/push.json": {
			{"https://dev.azure.com/acme/infra%20eu/_git/fleet", "git@ssh.dev.azure.com:v3/acme/Infra%20eu/fleet", "https://acme.visualstudio.com/DefaultCollection/infra%20eu/_git/fleet"},
			{"https://dev.azure.com/acme/_git/fleet", "https://dev.azure.com/acme/infra/_git/fleet", "git@ssh.dev.azure.com:v3/other/infra%20eu/fleet"},
		},
	} {
		host, _, _ := strings.Cut(file, "/")
		got, err := senderNamed(t, host).readPush(payloadOf(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, all := range urls {
			for _, url := range all {
				if is := got.names(url); is != (i == 0) {
					t.Errorf("%s names %s: %t", file, url, is)
				}
			}
		}
	}
}

func TestAHostWithANameForEachProtocol(t *testing.T) {
	got, err := senderNamed(t, "github").readPush([]byte(`{"ref": "refs/heads/main", "repository": {"clone_url": "https://git.example.com/a/b.git", "ssh_url": "git@ssh.example.com:a/b.git"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"https://git.example.com/a/b", "ssh://git@ssh.example.com/a/b.git"} {
		if !got.concerns(&v1alpha1.GitSource{URL: url}) {
			t.Errorf("does not concern %s", url)
		}
	}
}

func TestNoPush(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":           ``,
		"no JSON":           `payload=%7B%7D`,
		"another kind":      `[]`,
		"a number as a URL": `{"ref": "refs/heads/main", "repository": {"clone_url": 7}}`,
		"no reference":      `{"repository": {"clone_url": "https://github.com/a/b.git"}}`,
		"no repository":     `{"ref": "refs/heads/main"}`,
		"no URL":            `{"ref": "refs/heads/main", "repository": {"clone_url": "fleet"}}`,
		"no change":         `{"push": {"changes": [{"new": null, "old": null}]}, "repository": {"links": {"html": {"href": "https://bitbucket.org/a/b"}}}}`,
		"links of a kind":   `{"changes": [{"ref": {"id": "refs/heads/main"}}], "repository": {"links": {"html": 7}}}`,
		"only a project":    `{"changes": [{"ref": {"id": "refs/heads/main"}}], "repository": {"project": {"key": "a"}}}`,
		"no update":         `{"eventType": "git.push", "resource": {"repository": {"remoteUrl": "https://dev.azure.com/a/b/_git/c"}}}`,
		"minimal":           `{"eventType": "git.push", "resource": {"refUpdates": [{"name": "refs/heads/main"}], "repository": {"id": "x"}}}`,
		"cut":               `{"ref": "refs/heads/main", "repository": {"clone_url": "https://github.com/a/b.git"`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range senders() {
				if got, err := from.readPush([]byte(body)); err == nil {
					t.Errorf("%s: read as %+v", from.name, got)
				}
			}
		})
	}
}

func TestFollows(t *testing.T) {
	const branch, other, tag, tag2, pull = "refs/heads/main", "refs/heads/dev", "refs/tags/v1.0.0", "refs/tags/v2.0.0", "refs/pull/1/head"
	all := []string{branch, other, tag, tag2, pull}
	cases := map[string]struct {
		ref  v1alpha1.GitRef
		woke []string
	}{
		"nothing said":         {v1alpha1.GitRef{}, []string{branch}},
		"a branch":             {v1alpha1.GitRef{Branch: "dev"}, []string{other}},
		"a tag":                {v1alpha1.GitRef{Tag: "v1.0.0"}, []string{tag}},
		"a tag over a branch":  {v1alpha1.GitRef{Tag: "v1.0.0", Branch: "main"}, []string{tag}},
		"a range":              {v1alpha1.GitRef{SemVer: "1.x"}, []string{tag, tag2}},
		"a range over a tag":   {v1alpha1.GitRef{SemVer: "1.x", Tag: "v1.0.0"}, []string{tag, tag2}},
		"a name":               {v1alpha1.GitRef{Name: pull}, []string{pull}},
		"a name over a range":  {v1alpha1.GitRef{Name: branch, SemVer: "1.x"}, []string{branch}},
		"HEAD":                 {v1alpha1.GitRef{Name: "HEAD"}, []string{branch, other}},
		"a commit":             {v1alpha1.GitRef{Commit: "59b20b8d5c6ff8d09518216e87bae0a2b5f4a6a2"}, nil},
		"a commit on a branch": {v1alpha1.GitRef{Commit: "59b20b8d5c6ff8d09518216e87bae0a2b5f4a6a2", Branch: "main"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var woke []string
			for _, pushed := range all {
				if follows(c.ref, pushed) {
					woke = append(woke, pushed)
				}
			}
			if diff := cmp.Diff(c.woke, woke); diff != "" {
				t.Error(diff)
			}
		})
	}
}
