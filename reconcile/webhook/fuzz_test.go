package webhook

import (
	"net/http"
	"slices"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// FuzzReceive: whatever is sent, only a client with the token enqueues NodeSyncs, and only with a push to a repository
// that they follow.
func FuzzReceive(f *testing.F) {
	for _, file := range []string{
		"github/push.json", "github/tag.json", "github/ping.json", "gitlab/push.json", "gitlab/tag.json", "gitea/push.json", "forgejo/push.json",
		"bitbucket/push.json", "bitbucketserver/push.json", "bitbucketserver/tag.json", "azuredevops/push.json",
	} {
		for _, host := range []string{"github", "gitlab", "gitea", "forgejo", "bitbucket", "bitbucketserver", "azuredevops"} {
			f.Add(host, "push", "application/json", payloadOf(f, file), theToken)
			f.Add(host, "Push Hook", "application/json", payloadOf(f, file), theToken)
			f.Add(host, "repo:push", "application/json", payloadOf(f, file), theToken)
			f.Add(host, "repo:refs_changed", "application/json", payloadOf(f, file), theToken)
		}
	}
	f.Add("github", "ping", "application/json; charset=utf-8", []byte(`{}`), "")
	f.Add("gitlab", "Tag Push Hook", "text/plain", []byte(`{"ref": 1}`), theToken+"x")
	f.Fuzz(func(t *testing.T, host, event, kind string, body []byte, token string) {
		b := newBed(t, tokenSecret(theToken),
			following("hub", "https://github.com/codertocat/hello-world", v1alpha1.GitRef{}),
			following("lab", "https://example.com/mike/diaspora.git", v1alpha1.GitRef{}),
			following("bucket", "https://bitbucket.org/acme/fleet", v1alpha1.GitRef{}),
			following("server", "https://bitbucket.example.com/scm/flt/fleet.git", v1alpha1.GitRef{}),
			following("azure", "https://dev.azure.com/acme/infra%20eu/_git/fleet", v1alpha1.GitRef{}))
		header := delivery(host, event, body, token)
		header.Set("Content-Type", kind)
		w := b.serve(http.MethodPost, Path, header, body)
		if token != theToken && (w.Code < 400 || len(b.woken) > 0) {
			t.Errorf("a stranger hears %d and wakes %v", w.Code, b.woken)
		}
		if len(b.woken) > 0 {
			from, _ := senderOf(header)
			p, err := from.readPush(body)
			if err != nil || !slices.Contains(p.refs, "refs/heads/main") || kind == "" {
				t.Errorf("%v is woken by %q", b.woken, body)
			}
		}
	})
}

func FuzzRepositoryOf(f *testing.F) {
	for _, address := range []string{"https://github.com/Acme/fleet.git", "git@github.com:acme/fleet.git", "ssh://git@[::1]:22/a/b", "a:b", "://", "%zz", "https://a/..//.git"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		first, ok := repositoryOf(address)
		if ok == (first == "") {
			t.Fatalf("%q: %q, %t", address, first, ok)
		}
		for _, same := range []string{"ssh://git@" + string(first) + ".git", "https://" + string(first)} {
			if again, ok := repositoryOf(same); ok && again != first && isPlain(string(first)) {
				t.Errorf("%q is %q, and %q is %q", address, first, same, again)
			}
		}
	})
}

// isPlain reports whether a name needs no escaping in a URL.
func isPlain(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '/' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
