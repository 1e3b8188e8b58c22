package report_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestRepositories finds a repository on its host by the URLs that people use for it.
func TestRepositories(t *testing.T) {
	const bitbucket, azure = "/rest/api/latest/projects/", "/_apis/git/repositories/fleet/commits/" + commit + "/statuses?api-version=6.0"
	cases := map[string]struct{ host, repository, want string }{
		"gitea below a folder":        {"gitea", "http://git.example.com/git/acme/fleet/", "git.example.com/git/api/v1/repos/acme/fleet/statuses/" + commit},
		"github enterprise":           {"github", "http://git.example.com/acme/fleet", "git.example.com/api/v3/repos/acme/fleet/statuses/" + commit},
		"bitbucket's web page":        {"bitbucket", "http://www.bitbucket.org/acme/fleet/", "api.bitbucket.org/2.0/repositories/acme/fleet/commit/" + commit + "/statuses/build"},
		"data center, a page":         {"bitbucket server", "http://bb.example.com/projects/FLT/repos/fleet/browse", "bb.example.com" + bitbucket + "FLT/repos/fleet/commits/" + commit + "/builds"},
		"data center, a user's":       {"bitbucket server", "http://bb.example.com/scm/~me/fleet.git", "bb.example.com" + bitbucket + "~me/repos/fleet/commits/" + commit + "/builds"},
		"data center, a user's page":  {"bitbucket server", "http://bb.example.com/users/me/repos/fleet", "bb.example.com" + bitbucket + "~me/repos/fleet/commits/" + commit + "/builds"},
		"data center below a folder":  {"bitbucket server", "http://bb.example.com/bitbucket/scm/FLT/fleet", "bb.example.com/bitbucket" + bitbucket + "FLT/repos/fleet/commits/" + commit + "/builds"},
		"azure, named as its project": {"azure devops", "http://dev.azure.com/acme/_git/fleet", "dev.azure.com/acme/fleet" + azure},
		"azure by its old name":       {"azure devops", "http://acme.visualstudio.com/infra/_git/fleet", "acme.visualstudio.com/infra" + azure},
		"azure by its old name, one":  {"azure devops", "http://acme.visualstudio.com/_git/fleet", "acme.visualstudio.com/fleet" + azure},
		"azure devops server":         {"azure devops", "http://tfs.example.com/tfs/DefaultCollection/infra/_git/fleet", "tfs.example.com/tfs/DefaultCollection/infra" + azure},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := dialects()[c.host]
			d.repository = c.repository
			sent := hosts(t, d.takes)
			if err := d.poster(t, nil).Post(t.Context(), status); err != nil {
				t.Fatal(err)
			}
			if got := (*sent)[0].URL; got != c.want {
				t.Errorf("posted to %s, want %s", got, c.want)
			}
		})
	}
}

// TestHostRefuses URLs that are not of a repository, and Secrets without usable credentials.
func TestHostRefuses(t *testing.T) {
	repository, secret := as[*report.RepositoryError], as[*report.SecretError]
	byToken := map[string]string{"token": token}
	with := func(key, value string) map[string]string {
		values := appSecret()
		values[key] = value
		return values
	}
	cases := map[string]struct {
		provider, url string
		secret        map[string]string
		is            func(error) bool
	}{
		"ssh":                         {"gitea", "ssh://git@example.com/acme/fleet.git", byToken, repository},
		"no owner":                    {"gitea", "https://example.com/fleet", byToken, repository},
		"no path":                     {"gitea", "https://example.com", byToken, repository},
		"dots":                        {"gitea", "https://example.com/acme/../fleet", byToken, repository},
		"no URL":                      {"gitea", "https://%zz:" + token + "@x", byToken, repository},
		"other kind":                  {"sourcehut", "https://u:" + token + "@example.com/acme/fleet", byToken, repository},
		"no project":                  {"gitlab", "https://gitlab.com/fleet", byToken, repository},
		"bitbucket elsewhere":         {"bitbucket", "https://bitbucket.example.com/scm/FLT/fleet", byToken, repository},
		"bitbucket, a file":           {"bitbucket", "https://bitbucket.org/acme/fleet/src", byToken, repository},
		"data center without a key":   {"bitbucketserver", "https://bb.example.com/acme/fleet", byToken, repository},
		"data center, a branch":       {"bitbucketserver", "https://bb.example.com/scm/FLT/fleet/x", byToken, repository},
		"azure without _git":          {"azuredevops", "https://dev.azure.com/acme/infra/fleet", byToken, repository},
		"azure, a file":               {"azuredevops", "https://dev.azure.com/acme/infra/_git/fleet/x", byToken, repository},
		"a webhook in ssh":            {"generic", "ssh://hooks.example.com/x", byToken, repository},
		"no token":                    {"gitea", "https://example.com/acme/fleet", nil, secret},
		"no key of a signature":       {"generic", "https://hooks.example.com", map[string]string{"token": " "}, secret},
		"a user without a password":   {"bitbucket", "https://bitbucket.org/acme/fleet", map[string]string{"username": "me"}, secret},
		"a user on GitHub":            {"github", "https://github.com/acme/fleet", map[string]string{"username": "me", "password": token}, secret},
		"no personal access token":    {"azuredevops", "https://dev.azure.com/acme/_git/fleet", map[string]string{"password": token}, secret},
		"broken ca.crt":               {"gitea", "https://example.com/acme/fleet", map[string]string{"token": token, "ca.crt": "x"}, secret},
		"an app without installation": {"github", "https://github.com/acme/fleet", with("githubAppInstallationID", ""), secret},
		"an installation by its name": {"github", "https://github.com/acme/fleet", with("githubAppInstallationID", "../7"), secret},
		"an app without a key":        {"github", "https://github.com/acme/fleet", with("githubAppPrivateKey", ""), secret},
		"a key that is none":          {"github", "https://github.com/acme/fleet", with("githubAppPrivateKey", token), secret},
		"an app beside a token":       {"github", "https://github.com/acme/fleet", with("token", token), secret},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			values := map[string][]byte{}
			for key, value := range c.secret {
				values[key] = []byte(value)
			}
			_, err := (&report.Hosts{}).Host(c.provider, c.url, values)
			if err == nil || !c.is(err) || strings.Contains(err.Error(), token) {
				t.Fatalf("unexpected error %T: %v", err, err)
			}
		})
	}
}

// TestAKeyLastsOverVersions: commits keep the keys that they got from an earlier version.
func TestAKeyLastsOverVersions(t *testing.T) {
	d := dialects()["bitbucket"]
	sent := hosts(t, d.takes)
	s := status
	s.Context = "plumbline/production-europe-west/general-purpose-nodes"
	if err := d.poster(t, nil).Post(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	const want = "plumbline/production-europe-w-"
	body := (*sent)[0].Body
	if key := field("key")(body); len(key) != 40 || key != want+"f0f050bbb0" {
		t.Errorf("key %s", key)
	}
	if name := field("name")(body); name != s.Context {
		t.Errorf("name %s, want all of the context", name)
	}
}

// TestEveryProviderHasADialect: the suite has every provider that a NodeSync may name.
func TestEveryProviderHasADialect(t *testing.T) {
	text, err := os.ReadFile("../../manifests/crd/plumbline.dev_nodesyncs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var allowed, tested []string
	for _, provider := range spec.Properties["report"].Items.Schema.Properties["provider"].Enum {
		allowed = append(allowed, strings.Trim(string(provider.Raw), `"`))
	}
	for _, d := range dialects() {
		tested = append(tested, d.provider)
	}
	slices.Sort(allowed)
	slices.Sort(tested)
	if diff := cmp.Diff(allowed, slices.Compact(tested)); diff != "" {
		t.Errorf("providers (-allowed +tested):\n%s", diff)
	}
}

func TestTruncate(t *testing.T) {
	words := strings.Repeat("wort ", 40)
	cases := map[string]struct{ in, want string }{
		"empty":         {"", ""},
		"short":         {"applied, Ready", "applied, Ready"},
		"mentions":      {"refused: dis ``` @sandbox, (@a) @@b", "refused: dis ''' sandbox, (a) b"},
		"no mentions":   {"al2023@latest main@sha1:4f2e 3 @ 4", "al2023@latest main@sha1:4f2e 3 @ 4"},
		"lines":         {"one\n  two\t three ", "one two three"},
		"exactly 140":   {strings.Repeat("é", 140), strings.Repeat("é", 140)},
		"at a word":     {words, strings.TrimSpace(strings.Repeat("wort ", 28)) + "…"},
		"one long word": {strings.Repeat("é", 200), strings.Repeat("é", 139) + "…"},
		"cut before":    {strings.Repeat("a", 100) + "… " + strings.Repeat("b", 60), strings.Repeat("a", 100) + "…"},
		"141":           {strings.Repeat("a", 70) + " " + strings.Repeat("b", 70), strings.Repeat("a", 70) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := report.Truncate(c.in)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if n := utf8.RuneCountInString(got); n > report.MaxDescription {
				t.Errorf("%d characters", n)
			}
		})
	}
}

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
