package webhook

import (
	"os"
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
	cases := map[string]push{
		"github/push.json":  {[]repository{"github.com/codertocat/hello-world"}, "refs/heads/main"},
		"github/tag.json":   {[]repository{"github.com/codertocat/hello-world"}, "refs/tags/v1.2.0"},
		"gitlab/push.json":  {[]repository{"example.com/mike/diaspora"}, "refs/heads/main"},
		"gitlab/tag.json":   {[]repository{"example.com/jsmith/example"}, "refs/tags/v1.0.0"},
		"gitea/push.json":   {[]repository{"localhost/gitea/webhooks"}, "refs/heads/develop"},
		"forgejo/push.json": {[]repository{"forge.example.org/team/webhooks"}, "refs/heads/develop"},
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			got, err := parsePush(payloadOf(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(push{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAHostWithANameForEachProtocol(t *testing.T) {
	got, err := parsePush([]byte(`{"ref": "refs/heads/main", "repository": {"clone_url": "https://git.example.com/a/b.git", "ssh_url": "git@ssh.example.com:a/b.git"}}`))
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
		"cut":               `{"ref": "refs/heads/main", "repository": {"clone_url": "https://github.com/a/b.git"`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parsePush([]byte(body)); err == nil {
				t.Errorf("read as %+v", got)
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
